package gatetest

import (
	"os"
	"strings"
	"testing"
)

// Page fails the test unless each block of Go code on the page stands in one of the sources, line
// for line: what readers copy is what the tests run. A page that has sources must have code.
func Page(t testing.TB, page string, sources ...string) {
	t.Helper()
	code := ""
	for _, source := range sources {
		code += "\n" + read(t, source)
	}
	blocks := strings.Split(read(t, page), "\n```go\n")[1:]
	if len(blocks) == 0 && len(sources) > 0 {
		t.Errorf("%s has no Go code", page)
	}
	for _, block := range blocks {
		block, _, ends := strings.Cut(block, "\n```")
		if !ends || !strings.Contains(code, "\n"+block+"\n") {
			t.Errorf("%s has code that is not in %v:\n%s", page, sources, block)
		}
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
