package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the system kill the server when this process ends, however it ends: a
// test that panics runs no clean-up.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
