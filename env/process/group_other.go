//go:build !unix

package process

import "os/exec"

// ownGroup does nothing: these systems have no process groups in the standard library.
// What a command starts is then the command's to end.
func ownGroup(*exec.Cmd) {}

func killGroup(c *exec.Cmd) error { return c.Process.Kill() }
