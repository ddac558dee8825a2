package main

import (
	"cmp"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

var versionCommand = command{
	name:  "version",
	about: "Version prints the versions of leapgate, of the Go that built it, and of the modules in it.\n",
	prepare: func(*flag.FlagSet) func([]string, streams) int {
		return func(args []string, std streams) int {
			if len(args) > 0 {
				return misused(std, "version", "it takes no arguments")
			}
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			fmt.Fprintf(std.out, "leapgate %s %s %s/%s\n", cmp.Or(info.Main.Version, "(unknown)"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			for _, module := range info.Deps {
				fmt.Fprintf(std.out, "%s %s\n", module.Path, module.Version)
			}
			return exitOK
		}
	},
}
