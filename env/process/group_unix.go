//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command the head of a process group, so that what it starts ends
// with it.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends the group of a command that was started; that there is none left is no
// error.
func killGroup(c *exec.Cmd) error {
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		return err
	}
	return nil
}
