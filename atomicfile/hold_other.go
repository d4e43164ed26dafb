//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package atomicfile

import "os"

// Without locks that end with their process nobody can tell whether a temporary file
// was left: none is removed.

func held(*os.File) bool { return true }

func removeUnheld(string) {}

// rename closes the file first, as some systems ask for.
func rename(file *os.File, target string) error {
	name := file.Name()
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(name, target)
}
