//go:build e2e

package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// programs uses each released module as its readers would.
var programs = map[string]string{
	".": `package main

import (
	"github.com/leapgate-go/leapgate"
	_ "github.com/leapgate-go/leapgate/dashboard"
	_ "github.com/leapgate-go/leapgate/leaphttp"
	_ "github.com/leapgate-go/leapgate/leapprom"
	_ "github.com/leapgate-go/leapgate/rulefile"
)

func main() {
	e, err := leapgate.Must(leapgate.Config{}).Entry("GET /orders")
	if err != nil {
		panic(err)
	}
	e.Exit()
}
`,
	"leapgrpc": `package main

import (
	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapgrpc"
)

func main() {
	if _, err := leapgrpc.New(leapgrpc.Config{Gate: leapgate.Default()}); err != nil {
		panic(err)
	}
}
`,
	"leapredis": `package main

import "github.com/leapgate-go/leapgate/leapredis"

func main() { _, _ = leapredis.NewCounter(nil, leapredis.Config{}) }
`,
	"leapredis/viagoredis": `package main

import (
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
	"github.com/redis/go-redis/v9"
)

func main() {
	_, _ = leapredis.NewCounter(viagoredis.New(redis.NewClient(&redis.Options{})), leapredis.Config{})
}
`,
}

// Modules require each other at one version, which is the next release.
func TestRelease_ModulesRequireOneVersionOfEachOther(t *testing.T) {
	t.Parallel()
	versions := requirements(t)
	require.Len(t, versions, 1, "%v", versions)
	for version := range versions {
		assert.True(t, semver.IsValid(version) && version != "v0.0.0" && !module.IsPseudoVersion(version),
			"%s is required by %v; want a version that can be tagged", version, versions[version])
	}
}

func nextVersion(t *testing.T) string {
	t.Helper()
	for version := range requirements(t) {
		return version
	}
	t.Fatal("no module requires another")
	return ""
}

// In an empty folder, a program can fetch each module at its version and be built.
func TestRelease_EachModuleCanBeFetchedAndBuilt(t *testing.T) {
	t.Parallel()
	version, proxy := nextVersion(t), t.TempDir()
	for _, folder := range published {
		serve(t, proxy, folder, version)
	}
	for _, folder := range published {
		t.Run(modulePath(folder), func(t *testing.T) {
			t.Parallel()
			out, err := build(t, proxy, folder, version)
			require.NoError(t, err, "%s", out)
		})
	}
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		out, err := newUser(t, proxy).run("install", modulePath(".")+"/cmd/leapgate@"+version)
		require.NoError(t, err, "%s", out)
	})
}

// Without a version of a module that another requires, nobody can fetch the other.
func TestRelease_AMissingVersionIsSeen(t *testing.T) {
	t.Parallel()
	version, proxy := nextVersion(t), t.TempDir()
	serve(t, proxy, "leapredis", version)
	out, err := build(t, proxy, "leapredis", version)
	require.Error(t, err)
	assert.Contains(t, out, modulePath(".")+"@"+version)
}

// build makes a program in an empty folder, fetches what it needs from the proxy, and builds it.
func build(t *testing.T, proxy, folder, version string) (out string, err error) {
	t.Helper()
	u := newUser(t, proxy)
	require.NoError(t, os.WriteFile(filepath.Join(u.dir, "main.go"), []byte(programs[folder]), 0o600))
	for _, args := range [][]string{
		{"mod", "init", "example.com/program"},
		{"get", modulePath(folder) + "@" + version},
		{"mod", "tidy"},
		{"build", "-o", os.DevNull, "."},
	} {
		if out, err = u.run(args...); err != nil {
			return out, err
		}
	}
	return out, nil
}

// user has an empty folder outside the workspace, and a module cache that is empty too.
type user struct {
	t   *testing.T
	dir string
	env []string
}

// newUser returns a user that has our modules from a proxy. Those of others come from the module
// cache of this machine, or else from where it fetches them. With -trimpath the build cache
// serves all users.
func newUser(t *testing.T, proxy string) user {
	t.Helper()
	goEnv := func(name string) string {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(value))
	}
	cache := t.TempDir()
	return user{t: t, dir: t.TempDir(), env: append(os.Environ(),
		"GOWORK=off", "GOFLAGS=-modcacherw -buildvcs=false -trimpath", "GOMODCACHE="+cache, "GOBIN="+filepath.Join(cache, "bin"),
		"GONOSUMDB="+prefix+","+prefix+"/*",
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(goEnv("GOMODCACHE"), "cache", "download")+","+goEnv("GOPROXY"),
	)}
}

// run runs the go command.
func (u user) run(args ...string) (out string, err error) {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), "go", args...)
	cmd.Dir, cmd.Env = u.dir, u.env
	text, err := cmd.CombinedOutput()
	return string(text), err
}
