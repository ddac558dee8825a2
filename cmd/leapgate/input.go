package main

import (
	"fmt"
	"io"
	"os"

	"github.com/leapgate-go/leapgate/rulefile"
)

// stdinName is what errors call standard input.
const stdinName = "<standard input>"

// input is the rules of one argument.
type input struct {
	name  string
	rules rulefile.Rules
	notes []rulefile.Note // if they were those of Sentinel
}

// load reads the rules of an argument: a file, a folder, or "-". Rules of Sentinel are told
// by their fields.
func load(arg string, stdin io.Reader) (input, error) {
	if arg == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, rulefile.MaxFileSize+1))
		if err != nil {
			return input{}, fmt.Errorf("%s: %w", stdinName, err)
		}
		return parse(stdinName, data)
	}
	info, err := os.Stat(arg)
	if err != nil || info.IsDir() {
		rules, err := rulefile.Read(arg)
		return input{name: arg, rules: rules}, err
	}
	// Pipes too, for who gives one on a command line means it.
	f, err := os.Open(arg)
	if err != nil {
		rules, err := rulefile.Read(arg) // says it in the usual words
		return input{name: arg, rules: rules}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, rulefile.MaxFileSize+1))
	if err != nil {
		return input{}, err
	}
	return parse(arg, data)
}

func parse(name string, data []byte) (input, error) {
	in := input{name: name}
	var err error
	if rulefile.IsSentinel(name, data) {
		in.rules, in.notes, err = rulefile.Sentinel(name, data)
	} else {
		in.rules, err = rulefile.Parse(name, data)
	}
	return in, err
}

// skipped tells whether rules were left out.
func (in *input) skipped() bool {
	for _, note := range in.notes {
		if note.Loss == rulefile.Skipped {
			return true
		}
	}
	return false
}
