package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

// The README shows this program and what it prints, and its other code is tested, too.
func TestQuickstart_IsInTheReadmeWithItsOutput(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer func(was *os.File) { os.Stdout = was }(os.Stdout)
	os.Stdout = out
	synctest.Test(t, func(*testing.T) { main() })

	printed, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	wait := regexp.MustCompile(`retry in \S+`) // which differs each time
	printed, readme = wait.ReplaceAll(printed, nil), wait.ReplaceAll(readme, nil)
	if block := "\n```\n" + string(printed) + "```\n"; !strings.Contains(string(readme), block) {
		t.Errorf("README.md does not have what the program prints:\n%s", printed)
	}
	gatetest.Page(t, "../../README.md", "main.go", "../../docs/http_test.go")
}
