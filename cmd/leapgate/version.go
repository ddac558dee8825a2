package main

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

var versionCommand = command{
	name:  "version",
	about: "Version prints the version of leapgate, and of the Go that built it.\n",
	prepare: func(*flag.FlagSet) func([]string, streams) int {
		return func(args []string, std streams) int {
			if len(args) > 0 {
				return misused(std, "version", "it takes no arguments")
			}
			version := "(unknown)"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				version = info.Main.Version
			}
			fmt.Fprintf(std.out, "leapgate %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return exitOK
		}
	},
}
