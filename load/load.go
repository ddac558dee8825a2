// Package load knows how busy the machine is that the program runs on.
package load
