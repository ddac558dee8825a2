// Package release tests that programs elsewhere can fetch and build each module of Leapgate,
// as the Go module proxy will serve them.
package release
