// Package everynth refuses every n-th call. It is no part of Leapgate: a test registers it, to
// show that a kind of rules needs nothing but a package such as this one. A new kind
// may begin as a copy of it.
package everynth

import "github.com/leapgate-go/leapgate/rule"

// Rule refuses every n-th call of one resource, or of each of those that match a pattern. It is
// a plain value; loading copies it.
type Rule struct {
	// ID names the rule in errors and snapshots. It must be unique among the rules of this kind
	// of a gate, and at most 1,040 bytes. If it is empty, it becomes "resource/1" for the first
	// rule of the resource, "resource/2" for the second.
	ID string

	// Resource is the name of the resource, 1 to 1,024 bytes, or the pattern that names must
	// match. With Match Default or All it is empty, or "*".
	Resource string
	// Match says whether Resource is a name, which is the default, or which pattern. Every
	// resource that matches is counted by itself.
	Match rule.Match

	// N is which calls are refused: every second one with 2, which is the least, to every
	// 1,000,000th.
	N int64

	// Mode is Enforce, which is the default, Shadow or Off.
	Mode rule.Mode

	// Source says where the rule came from: the rule file that owns it, or nothing, if the
	// program made it. It changes nothing about the rule.
	Source string
}

// MaxN is the largest N.
const MaxN = 1_000_000
