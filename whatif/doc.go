// Package whatif tells what rules would have done to the requests of a log.
package whatif
