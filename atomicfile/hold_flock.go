//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package atomicfile

import (
	"os"
	"syscall"
)

// held locks a new temporary file and tells whether it still has its name: in the
// moment before, another process may have taken it for one that was left. The lock ends
// with the process. Where a file system has no locks, nobody removes anything.
func held(file *os.File) bool {
	for syscall.Flock(int(file.Fd()), syscall.LOCK_EX) == syscall.EINTR {
	}
	return hasName(file)
}

func hasName(file *os.File) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(mine, named)
}

// removeUnheld removes a file that no process has locked.
func removeUnheld(name string) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && hasName(file) {
		os.Remove(name)
	}
}

// rename gives a file its name while it is still held. Closing alone would not end the
// lock at once: a process that is being started has a copy of the descriptor for a moment.
func rename(file *os.File, target string) error {
	if err := os.Rename(file.Name(), target); err != nil {
		return err
	}
	syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	return file.Close()
}
