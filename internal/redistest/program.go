// Package redistest starts real Redis servers on the loopback for tests, benchmarks and
// examples: a single one, a cluster of six, and a proxy that makes the line to one bad.
// It is no part of the library.
//
// Everything that is started belongs to a directory of its own, and is ended by its
// process id.
package redistest

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Env names the environment variable with the root of a Debian system with a newer
// redis-server. This makes one:
//
//	debootstrap --variant=minbase --include=redis-server,redis-tools trixie DIRECTORY
const Env = "LEAPGATE_REDIS_ROOT"

// Program is the command line of a program, before its arguments.
type Program []string

// Installed is a program of this system, such as redis-server.
func Installed(name string) (Program, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s is not installed; this installs it on Debian and Ubuntu: apt-get install redis-server", name)
	}
	return Program{path}, nil
}

// Unpacked is a program of the system under root, which runs with the loader and the
// libraries of that system. See [Env].
func Unpacked(root, name string) (Program, error) {
	one := func(pattern string) (string, error) {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no %s in %s; this puts it there: debootstrap --variant=minbase "+
				"--include=redis-server,redis-tools trixie %[2]s", pattern, root)
		}
		if err != nil {
			return "", err
		}
		return found[0], nil
	}
	loader, err := one("usr/lib*/ld-linux*.so.*")
	if err != nil {
		return nil, err
	}
	libraries, err := one("usr/lib/*-linux-gnu*")
	if err != nil {
		return nil, err
	}
	program, err := one("usr/bin/" + name)
	if err != nil {
		return nil, err
	}
	return Program{loader, "--library-path", libraries, program}, nil
}

func (p Program) command(args ...string) *exec.Cmd {
	all := append(append([]string(nil), p[1:]...), args...)
	return exec.Command(p[0], all...)
}

// Output runs it, and returns what it prints.
func (p Program) Output(args ...string) (string, error) {
	cmd := p.command(args...)
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w", cmd.Args, err)
	}
	return string(text), nil
}
