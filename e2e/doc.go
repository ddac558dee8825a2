// Package e2e holds Leapgate against real servers and real clients, on the loopback and in
// real time:
//
//	go test -tags e2e -timeout 300s ./...
//
// It is a module of its own, so that nobody else depends on the clients. Everything that
// it starts, it stops.
package e2e
