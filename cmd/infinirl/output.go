package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/infinirl/infinirl/atomicfile"
)

// checkOutput tells, before any work is done, that nothing could be written to path.
// That is bad input where the path is wrong, not where the disk is full.
func checkOutput(path string) error {
	if path == "-" {
		return nil
	}
	err := atomicfile.Check(path)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EIO) {
		return err
	}
	return badInput(err)
}

// writeOutput lets write fill the file at path, or standard output if path is "-".
// A file appears under its name only when it is whole, and an error leaves nothing
// behind.
func writeOutput(path string, std streams, write func(io.Writer) error) error {
	if path == "-" {
		w := bufio.NewWriter(std.out)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	}
	if err := checkOutput(path); err != nil {
		return err
	}
	return atomicfile.Write(path, write)
}

// writeFile is writeOutput for what needs a file that it can go back in; on standard
// output too, nothing appears before all has gone well.
func writeFile(path string, std streams, write func(*os.File) error) error {
	if path != "-" {
		if err := checkOutput(path); err != nil {
			return err
		}
		return atomicfile.Create(path, write)
	}
	f, err := atomicfile.Nameless()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(std.out, f)
	return err
}

// sameFile tells whether two names mean one regular file, be it there or not.
func sameFile(a, b string) bool {
	if a == "-" || b == "-" {
		return false
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return infoA.Mode().IsRegular() && os.SameFile(infoA, infoB)
	}
	return errA != nil && errB != nil && absolute(a) == absolute(b)
}

// absolute is the whole name of a file that is not there, in the folder as it is.
func absolute(path string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}
