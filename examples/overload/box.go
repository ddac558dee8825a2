package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/leapgate-go/leapgate/internal/cgroup"
)

const (
	quota, period = "50000", "100000" // half a processor, in microseconds
	threads       = 2                 // as Go has them in a container with half a processor
)

// enter leaves this process half a processor, in a cgroup, or else one, by GOMAXPROCS. It says
// what the process has then. leave undoes it.
func enter() (has string, leave func() error) {
	before := runtime.GOMAXPROCS(min(threads, runtime.NumCPU()))
	var faults []error
	for _, b := range boxes() {
		err := b.enter()
		if err == nil {
			return "half a processor, by " + b.version, func() error {
				runtime.GOMAXPROCS(before)
				return b.leave()
			}
		}
		faults = append(faults, err)
		_ = b.leave() // as far as it was entered
	}
	runtime.GOMAXPROCS(1)
	return fmt.Sprintf("one processor, by GOMAXPROCS: it may make no cgroup (%v; %v)", faults[0], faults[1]), func() error {
		runtime.GOMAXPROCS(before)
		return nil
	}
}

// box is a cgroup of this process's own, in a version. It comes before others on the machine, so that
// half a processor is what it has.
type box struct {
	version string
	needs   string // a file that is there if the version can be used
	folders []folder
	set     [][2]string // files, and what is written to them
}

// folder is one that has the processes of a cgroup.
type folder struct {
	path string
	home string // the one in which this process began
}

func boxes() []box {
	groups, err := cgroup.Machine().Groups()
	if err != nil {
		groups = "" // and there is no way back
	}
	at := func(mount, controller string) folder {
		f := folder{path: filepath.Join(mount, fmt.Sprintf("leapgate-overload-%d", os.Getpid()))}
		if home, ok := groups.Of(controller); ok {
			f.home = filepath.Join(mount, home)
		}
		return f
	}
	const v2, v1 = "/" + cgroup.MountV2, "/" + cgroup.MountV2 + "/cpu"
	two, one, accounts := at(v2, ""), at(v1, "cpu"), at(v1+"acct", "cpuacct")
	return []box{
		{cgroup.V2, v2 + "/cgroup.controllers", []folder{two}, [][2]string{
			{v2 + "/cgroup.subtree_control", "+cpu"}, {two.path + "/cpu.max", quota + " " + period}, {two.path + "/cpu.weight", "10000"},
		}},
		{cgroup.V1, v1 + "/cpu.cfs_quota_us", []folder{one, accounts}, [][2]string{
			{one.path + "/cpu.cfs_period_us", period}, {one.path + "/cpu.cfs_quota_us", quota}, {one.path + "/cpu.shares", "262144"},
		}},
	}
}

func (b *box) enter() error {
	if _, err := os.Stat(b.needs); err != nil {
		return err
	}
	for _, f := range b.folders {
		if _, err := os.Stat(f.home); err != nil {
			return err // there would be no way back
		}
		if err := os.Mkdir(f.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { // the two may be one
			return err
		}
	}
	for _, s := range b.set {
		if err := write(s[0], s[1]); err != nil {
			return err
		}
	}
	return b.move(func(f folder) string { return f.path })
}

// leave goes back, and removes the cgroup.
func (b *box) leave() error {
	faults := []error{b.move(func(f folder) string { return f.home })}
	for _, f := range b.folders {
		if err := os.Remove(f.path); !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// move puts this process into one folder for each.
func (b *box) move(to func(folder) string) error {
	for _, f := range b.folders {
		if err := write(filepath.Join(to(f), "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
	}
	return nil
}

// write writes to a file that is there: where cgroups are of another version, none is made.
func write(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
