// Package breaker stops calls to what does not answer, and lets them come back gently.
package breaker
