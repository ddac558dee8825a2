// Package prometheus holds package leapprom, and the dashboard and rules in deploy/,
// against a real Prometheus:
//
//	go test -tags e2e -timeout 300s .
//
// It needs prometheus, promtool and Debian's python3-prometheus-client; the check of the
// dashboard's types also needs npm and its registry, and is skipped without.
package prometheus
