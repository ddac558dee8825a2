//go:build gc && !leapgate_portable

// Without an assembly file the compiler refuses functions that have no body,
// such as the two that hint_pin.go links to.
