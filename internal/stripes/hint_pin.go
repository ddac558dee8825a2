//go:build gc && !leapgate_portable

package stripes

import _ "unsafe" // for go:linkname

// minStripes: the processor's index never collides, so that as many stripes
// as processors are enough.
const minStripes = 1

// Hint returns the index of the processor that the caller runs on. It
// may be moved to another one at any time; stripes need no more than a hint.
//
// The runtime keeps procPin linkable for packages that came to depend on it.
// Should that end, the build tag leapgate_portable does without.
func Hint() int {
	i := procPin()
	procUnpin()
	return i
}

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()
