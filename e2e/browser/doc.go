// Package browser opens the dashboard in a real headless Chromium and uses it as people do:
//
//	go test -tags e2e -timeout 600s .
//
// It needs a Chromium: CHROMIUM names it, or it is found where Debian puts it. Of the
// environment it also reads
//
//	SCREENSHOTS   a directory for screenshots, in light and dark, at the widths of a desk and of a phone
//	README_IMAGE  a file for the screenshot of the README, which takes more than a minute
//	AXE           the file axe.min.js of axe-core; without it, accessibility is not tested, which is said
//
// Whatever a page writes to the console as a warning or an error fails its test, and so do
// violations of its Content-Security-Policy.
package browser
