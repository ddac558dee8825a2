// Package enum gives small enumerations their names, in text and back.
package enum

import (
	"fmt"
	"strings"
)

// Enum is the names of the values of one enumeration, from 0 on.
type Enum[E ~uint8] struct {
	What  string // what it is, for errors: "mode"
	Names []string
}

// String is the name of a value, or "mode(9)" if it has none.
func (e *Enum[E]) String(v E) string {
	if int(v) < len(e.Names) {
		return e.Names[v]
	}
	return fmt.Sprintf("%s(%d)", e.What, v)
}

// Marshal returns the name of a value, for MarshalText.
func (e *Enum[E]) Marshal(v E) ([]byte, error) {
	if int(v) >= len(e.Names) {
		return nil, fmt.Errorf("unknown %s %d; want 0 to %d", e.What, v, len(e.Names)-1)
	}
	return []byte(e.Names[v]), nil
}

// Unmarshal sets v to the value that has a name, for UnmarshalText.
func (e *Enum[E]) Unmarshal(text []byte, v *E) error {
	for i, name := range e.Names {
		if string(text) == name {
			*v = E(i)
			return nil
		}
	}
	last := len(e.Names) - 1
	return fmt.Errorf("unknown %s %.32q; want %s or %s", e.What, text,
		strings.Join(e.Names[:last], ", "), e.Names[last])
}
