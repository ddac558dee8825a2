package rule

import "github.com/leapgate-go/leapgate/internal/enum"

// Mode is what is done with the decisions of a rule.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota // refuse what goes beyond the rule
	Shadow              // decide and count, never refuse
	Off                 // do not look
)

var modes = enum.Enum[Mode]{What: "mode", Names: []string{"enforce", "shadow", "off"}}

// String is the mode's name: "enforce", "shadow", "off".
func (m Mode) String() string { return modes.String(m) }

// MarshalText returns the mode's name.
func (m Mode) MarshalText() ([]byte, error) { return modes.Marshal(m) }

// UnmarshalText reads a mode's name.
func (m *Mode) UnmarshalText(text []byte) error { return modes.Unmarshal(text, m) }
