package rulefile

import (
	"errors"
	"fmt"

	"github.com/leapgate-go/leapgate/internal/escape"
)

// ErrRuleFile is what every fault of a rule file is: errors.Is(err, ErrRuleFile). A file
// that cannot be read is also the error that the system gave, such as fs.ErrNotExist.
var ErrRuleFile = errors.New("leapgate: bad rule file")

// Error is one thing that is wrong with a rule file.
type Error struct {
	File string // as it was given
	// Line and Column are where, from 1. Columns count characters; a tab is one. They
	// are 0 if it is the file as a whole.
	Line, Column int
	// Field is the name of the field that is wrong, "threshold", if it is one.
	Field string
	// Message says what is wrong and what would be right.
	Message string
	// Err is what it comes from: a [*rule.Fault], if a rule was read but is no
	// good; an error of the system; or nil.
	Err error
}

// Error reads: rules.yaml:3:16: flow rule "orders-qps": threshold is -1; want a finite
// number of at least 0. Whatever was in the file, it has no control characters.
func (e *Error) Error() string {
	file := escape.Text(e.File)
	switch {
	case e.File == "" && e.Line == 0:
		return e.Message
	case e.File == "":
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
	case e.Line == 0:
		return file + ": " + e.Message
	default:
		return fmt.Sprintf("%s:%d:%d: %s", file, e.Line, e.Column, e.Message)
	}
}

// Unwrap returns [ErrRuleFile], and Err.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrRuleFile}
	}
	return []error{ErrRuleFile, e.Err}
}
