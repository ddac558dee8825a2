package rulefile

import (
	"fmt"
	"strings"
)

// maxErrors is how many errors are told at once. Nobody reads more, and a file of
// rubbish has millions.
const maxErrors = 100

// Errors is everything that is wrong with a rule file or a folder of them, in the order of
// the files, one to a line. Beyond a hundred, the last one says how many more there are.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, fault := range e {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors one by one.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, fault := range e {
		errs[i] = fault
	}
	return errs
}

// orNil returns the errors as an error: nil if there are none, and not more than are read.
// untold is how many there are besides.
func (e Errors) orNil(untold int) error {
	if len(e) == 0 {
		return nil
	}
	if len(e) > maxErrors {
		e, untold = e[:maxErrors:maxErrors], untold+len(e)-maxErrors
	}
	if untold > 0 {
		last := e[len(e)-1]
		e = append(e, &Error{File: last.File, Line: last.Line, Column: last.Column, Message: fmt.Sprintf("and %d more errors", untold)})
	}
	return e
}
