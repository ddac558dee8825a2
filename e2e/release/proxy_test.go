//go:build e2e

package release

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// root is the root of the checkout.
const root = "../.."

// prefix is how the paths of all modules of Leapgate begin.
const prefix = "github.com/leapgate-go/leapgate"

// published are the folders of the modules that are released. All have the same version.
var published = []string{".", "leapgrpc", "leapredis", "leapredis/viagoredis"}

// modulePath returns the path of the module in a folder.
func modulePath(folder string) string { return path.Join(prefix, folder) }

// requirements returns the versions at which the released modules require each other, and the
// modules that require them at each.
func requirements(t *testing.T) map[string][]string {
	t.Helper()
	versions := map[string][]string{}
	for _, folder := range published {
		for _, r := range readMod(t, folder).Require {
			if r.Mod.Path == prefix || strings.HasPrefix(r.Mod.Path, prefix+"/") {
				versions[r.Mod.Version] = append(versions[r.Mod.Version], modulePath(folder))
			}
		}
	}
	return versions
}

func readMod(t *testing.T, folder string) *modfile.File {
	t.Helper()
	name := filepath.Join(root, folder, "go.mod")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	mod, err := modfile.Parse(name, text, nil)
	require.NoError(t, err)
	return mod
}

// serve writes a module to a folder that is a module proxy, as the Go module proxy makes it
// of a repository with a tag.
func serve(t *testing.T, proxy, folder, version string) {
	t.Helper()
	m := module.Version{Path: modulePath(folder), Version: version}
	escaped, err := module.EscapePath(m.Path)
	require.NoError(t, err)
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))

	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	require.NoError(t, err)
	require.NoError(t, modzip.Create(archive, m, tracked(t, folder)))
	require.NoError(t, archive.Close())

	mod, err := os.ReadFile(filepath.Join(root, folder, "go.mod"))
	require.NoError(t, err)
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339))
	for name, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".mod": mod, version + ".info": []byte(info),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
}

// tracked returns the files of a module that git knows, with the licence of the root if it has
// none of its own.
func tracked(t *testing.T, folder string) (files []modzip.File) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = filepath.Join(root, folder)
	names, err := list.Output()
	require.NoError(t, err)
	licensed := false
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		files = append(files, file{name, filepath.Join(list.Dir, name)})
		licensed = licensed || name == "LICENSE"
	}
	if !licensed {
		files = append(files, file{"LICENSE", filepath.Join(root, "LICENSE")})
	}
	return files
}

// file is a file of a module.
type file struct{ path, at string }

func (f file) Path() string                 { return f.path }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.at) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.at) }
