//go:build unix

package train

import (
	"os"
	"runtime"
	"syscall"
)

// lockFile takes an exclusive lock that ends with the file or the process; it fails
// at once if another process has it.
func lockFile(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// peakRSS is the largest resident set size of this process so far, in bytes.
func peakRSS() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" { // bytes there, KiB elsewhere
		return int64(usage.Maxrss)
	}
	return int64(usage.Maxrss) * 1024
}
