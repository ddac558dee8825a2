package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/leapgate-go/leapgate/internal/document"
	"github.com/leapgate-go/leapgate/rulefile"
	"github.com/leapgate-go/leapgate/rulefile/sentinel"
)

const stdinName = "<standard input>"

type input struct {
	name string
	rulefile.File
	losses []sentinel.Loss // if they were those of Sentinel
}

// load reads the rules of an argument: a file, a folder, or "-". Rules of Sentinel are known
// by their fields.
func load(arg string, stdin io.Reader) (input, error) {
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, document.MaxSize+1))
		if err != nil {
			return input{}, fmt.Errorf("%s: %w", stdinName, err)
		}
		return parse(stdinName, data)
	}
	info, err := os.Stat(arg)
	if err != nil || info.IsDir() {
		f, err := rulefile.ReadFile(arg)
		return input{name: arg, File: f}, err
	}
	// Pipes too: one that is named on a command line is meant.
	f, err := os.Open(arg)
	if err != nil {
		f, err := rulefile.ReadFile(arg) // says it in the usual words
		return input{name: arg, File: f}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, document.MaxSize+1))
	if err != nil {
		return input{}, err
	}
	return parse(arg, data)
}

func parse(name string, data []byte) (input, error) {
	in := input{name: name}
	var err error
	if sentinel.Detect(name, data) {
		in.Rules, in.losses, err = sentinel.Parse(name, data)
	} else {
		in.File, err = rulefile.ParseFile(name, data)
	}
	return in, err
}

func (in *input) skipped() bool {
	return slices.ContainsFunc(in.losses, func(l sentinel.Loss) bool { return l.Effect == sentinel.Skipped })
}
