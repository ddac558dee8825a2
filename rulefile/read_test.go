package rulefile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leapgate-go/leapgate/internal/document"

	"github.com/stretchr/testify/require"
)

func TestRead_File(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "any name")
	writeFile(t, name, everyField)
	rules, err := Read(name)
	require.NoError(t, err)
	require.Equal(t, everyRule(), rules)
}

func TestRead_Folder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	rule := func(name string) string { return "flow: [{resource: " + name + ", threshold: 1}]" }
	writeFile(t, filepath.Join(folder, "b.yml"), rule("b"))
	writeFile(t, filepath.Join(folder, "a.yaml"), rule("a"))
	writeFile(t, filepath.Join(folder, "c.json"), `{"flow": [{"resource": "c", "threshold": 1}]}`)
	writeFile(t, filepath.Join(folder, ".hidden.yaml"), "}")
	writeFile(t, filepath.Join(folder, "d.yaml~"), "}")
	writeFile(t, filepath.Join(folder, "README.md"), "}")
	require.NoError(t, os.Mkdir(filepath.Join(folder, "folder.yaml"), 0o700))
	require.NoError(t, os.Symlink("folder.yaml", filepath.Join(folder, "link.yaml")))
	// As in a ConfigMap.
	require.NoError(t, os.Mkdir(filepath.Join(folder, "..2024_1.yaml"), 0o700))
	writeFile(t, filepath.Join(folder, "..2024_1.yaml", "e.yaml"), rule("e"))
	require.NoError(t, os.Symlink("..2024_1.yaml", filepath.Join(folder, "..data")))
	require.NoError(t, os.Symlink("..data/e.yaml", filepath.Join(folder, "e.yaml")))

	rules, err := Read(folder)
	require.NoError(t, err)
	var names []string
	for _, r := range rules.Flow {
		names = append(names, r.Resource)
		require.Empty(t, r.Source)
	}
	require.Equal(t, []string{"a", "b", "c", "e"}, names)
}

func TestRead_IDsAreUniqueInAFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml")
	writeFile(t, a, "flow:\n  - {id: x, resource: a, threshold: 1}\nisolation: [{id: x, resource: a, maxInFlight: 1}]")
	writeFile(t, b, "flow:\n  - {id: x, resource: a, threshold: 1}\n  - {resource: y, threshold: -1}\nnothing: 1")
	_, err := Read(folder)
	require.EqualError(t, err, fmt.Sprintf(`%[2]s:2:10: flow rule "x": the rule at %[1]s:2 has the same id; want another
%[2]s:3:30: flow rule on "y": threshold is -1; want a finite number of at least 0
%[2]s:4:1: unknown field "nothing"; want flow, isolation, breaker, param or system`, a, b))
}

func TestRead_WhatCannotBeRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	missing := filepath.Join(folder, "missing.yaml")
	_, err := Read(missing)
	require.EqualError(t, err, missing+": there is no such file or folder")
	require.ErrorIs(t, err, ErrRuleFile)
	require.ErrorIs(t, err, fs.ErrNotExist)

	_, err = Read(folder)
	require.EqualError(t, err, folder+": no rule file in this folder; want at least one *.yaml, *.yml or *.json")

	require.NoError(t, os.Symlink("nowhere", filepath.Join(folder, "a.yaml")))
	_, err = Read(folder)
	require.EqualError(t, err, filepath.Join(folder, "a.yaml")+": there is no such file or folder")

	_, err = Read("a\x00b")
	require.EqualError(t, err, `"a\x00b": cannot be read: invalid argument`)
}

func TestRead_FolderThatIsTooLarge(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	big := strings.Repeat("#", document.MaxSize)
	for i := range 5 {
		writeFile(t, filepath.Join(folder, fmt.Sprint(i, ".yaml")), big)
	}
	_, err := Read(folder)
	require.EqualError(t, err, folder+": the files of the folder are larger than 16 MiB together")
}

func TestRead_FolderWithTooManyFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for i := range maxFiles + 1 {
		writeFile(t, filepath.Join(folder, fmt.Sprint(i, ".yaml")), "")
	}
	_, err := Read(folder)
	require.EqualError(t, err, folder+": 1001 rule files in this folder; want at most 1000")
}

func TestGather_SumTellsContentAndNames(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	sum := func() string {
		c, err := readFiles(folder)
		require.NoError(t, err)
		return string(c.sum[:])
	}
	a, b := filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yaml")
	writeFile(t, a, "flow: []")
	first := sum()
	require.Equal(t, first, sum())
	require.NoError(t, os.Rename(a, b))
	require.NotEqual(t, first, sum())
	writeFile(t, a, "")
	second := sum()
	writeFile(t, a, "flow: []")
	writeFile(t, b, "")
	require.NotEqual(t, second, sum())
}
