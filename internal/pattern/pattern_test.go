package pattern_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/names"
	"github.com/leapgate-go/leapgate/internal/pattern"
	"github.com/leapgate-go/leapgate/rule"
)

func matches(t testing.TB, match rule.Match, text, name string) bool {
	t.Helper()
	p, err := pattern.Compile(match, text)
	require.NoError(t, err, "%v %q", match, text)
	return p.Matches(name, false)
}

func TestGlob_WhatItMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ glob, yes, no string }{ // names between spaces
		{"a", "a", "b aa A"},
		{"*", "a b/c é \x00\n \xff", ""},
		{"**", "a b/c", ""},
		{"GET_/*", "GET_/ GET_/a GET_/a/b GET_/a\nb", "GET_ POST_/a xGET_/"},
		{"*/orders", "GET_/orders a/b/orders /orders", "orders GET_/orders/1"},
		{"a*b*c", "abc axbyc abcbc aabbcc", "ab abcd xabc"},
		{"?", "a é 世 \xff /", "ab "},
		{"a?c", "abc a/c aéc", "ac abbc"},
		{"[a-c]x", "ax bx cx", "dx x ]x a"},
		{"[^a-c]x", "dx ^x éx", "ax x"},
		{"[abc-]", "a b c -", "d"},
		{"[-a]", "- a", "b"},
		{"[]a]", "] a", "[ b"},
		{"[^]a]", "b [", "] a"},
		{"[[:alpha:]]", "[] :] a] l]", "b z [:alpha:]"},
		{"[^^]", "a", "^"},
		{"[a^]", "a ^", "b"},
		{`[\]`, `\`, "] a"},
		{`[\d]`, `\ d`, "5"},
		{`\*`, "*", `a \*`},
		{`a\?`, "a?", `ab a\?`},
		{`\[a\]`, "[a]", "a"},
		{`\a\\`, `a\`, `a a\\`},
		{".", ".", "a"},
		{"a.b+(c|d)$^{2}", "a.b+(c|d)$^{2}", "axbbc"},
		{"]", "]", "a"},
		{"(?i)a", "(?i)a (xi)a", "a A"},
		{"é*", "é éa", "e"},
	} {
		for _, name := range strings.Split(c.yes, " ") {
			require.True(t, matches(t, rule.Glob, c.glob, name), "%q, %q", c.glob, name)
		}
		for _, name := range strings.Split(c.no, " ") {
			if name != "" {
				require.False(t, matches(t, rule.Glob, c.glob, name), "%q, %q", c.glob, name)
			}
		}
	}
}

func TestRegexp_MatchesWholeNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, yes, no string }{
		{"a", "a", "aa ba ab A a\n"},
		{"a|b", "a b", "ax xb ab"},
		{"ab?|abc", "a ab abc", "abcd"},
		{"(?i)get .*", "GET_x", ""},
		{"^a$", "a", "ab"},
		{"(?m)^a$", "a", "a\nb b\na"},
		{"a*", "aa", "b"},
		{".", "a é", "\n ab"},
		{"(?s).", "\n", "ab"},
		{`\Qa.b`, "a.b", "axb"},
		{`\Qa.b\E+`, "a.bb", "axb"},
		{`a\z`, "a", "ab"},
	} {
		for _, name := range strings.Split(c.yes, " ") {
			require.True(t, matches(t, rule.Regexp, c.text, strings.ReplaceAll(name, "_", " ")), "%q, %q", c.text, name)
		}
		for _, name := range strings.Split(c.no, " ") {
			if name != "" {
				require.False(t, matches(t, rule.Regexp, c.text, name), "%q, %q", c.text, name)
			}
		}
	}
}

func TestCompile_Faults(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"[", "a[b", "[]", "[^]", "[^", "x[]", `\`, `a*\`, "[b-a]", "[a-]-0]["} {
		_, err := pattern.Compile(rule.Glob, glob)
		require.Error(t, err, "%q", glob)
		require.NotContains(t, err.Error(), `\A`, "what was not given is not shown")
	}
	for _, text := range []string{"(", ")", "a)|(?:b", "[", "*", `\`, "a{1001}", "\xff"} {
		_, err := pattern.Compile(rule.Regexp, text)
		require.Error(t, err, "%q", text)
		require.NotContains(t, err.Error(), `\A`, "what was not given is not shown")
	}
	_, err := pattern.Compile(rule.Exact, "a")
	require.ErrorContains(t, err, "no pattern matches by exact")
	_, err = pattern.Compile(rule.Match(9), "a")
	require.ErrorContains(t, err, "match(9)")
}

// Other serves names of all kinds, so patterns of all kinds bind it.
func TestMatches_OtherAndDefault(t *testing.T) {
	t.Parallel()
	for _, match := range []rule.Match{rule.Glob, rule.Regexp} {
		require.True(t, matches(t, match, "x", names.Other))
		p, err := pattern.Compile(match, "x")
		require.NoError(t, err)
		require.True(t, p.Matches("x", true), "an exact rule beside it changes nothing")
		require.True(t, p.Matches(names.Other, true))
	}
	p, err := pattern.Compile(rule.Default, "*")
	require.NoError(t, err)
	for _, name := range []string{"a", names.Other} {
		require.True(t, p.Matches(name, false))
		require.False(t, p.Matches(name, true))
	}
}

func TestMatch_Names(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"exact", "glob", "regexp", "default"} {
		text, err := json.Marshal(rule.Match(i))
		require.NoError(t, err)
		require.Equal(t, `"`+name+`"`, string(text))
		var m rule.Match
		require.NoError(t, json.Unmarshal(text, &m))
		require.Equal(t, rule.Match(i), m)
	}
	var m rule.Match
	require.ErrorContains(t, m.UnmarshalText([]byte("prefix")), "exact, glob, regexp, default or all")
}

// naiveGlob goes through both, rune by rune.
func naiveGlob(glob, name []rune) bool {
	if len(glob) == 0 {
		return len(name) == 0
	}
	switch glob[0] {
	case '*':
		return naiveGlob(glob[1:], name) || len(name) > 0 && naiveGlob(glob, name[1:])
	case '?':
		return len(name) > 0 && naiveGlob(glob[1:], name[1:])
	case '[':
		end := 2
		if glob[1] == '^' {
			end = 3
		}
		for glob[end] != ']' {
			end++
		}
		return len(name) > 0 && inClass(glob[1:end], name[0]) && naiveGlob(glob[end+1:], name[1:])
	case '\\':
		glob = glob[1:]
	}
	return len(name) > 0 && glob[0] == name[0] && naiveGlob(glob[1:], name[1:])
}

func inClass(class []rune, r rune) bool {
	not := class[0] == '^'
	if not {
		class = class[1:]
	}
	for i := 0; i < len(class); i++ {
		if i+2 < len(class) && class[i+1] == '-' {
			if class[i] <= r && r <= class[i+2] {
				return !not
			}
			i += 2
		} else if class[i] == r {
			return !not
		}
	}
	return not
}

// No glob makes it panic, and what it takes matches as it does rune by rune.
func FuzzGlob(f *testing.F) {
	for _, glob := range []string{"", "*", "a*b?c", "[a-c]", "[^]-a]", `\[x\]`, "[", "[z-a]", "**a**", "[a-b-c]", "(?i)", "[[:digit:]]", "é[à-ü]*", "\xff"} {
		f.Add(glob, "abc")
		f.Add(glob, glob)
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		if len(glob) > 30 || len(name) > 30 || strings.Count(glob, "*") > 4 {
			return // the naive one takes its time
		}
		p, err := pattern.Compile(rule.Glob, glob)
		if err != nil {
			if !strings.ContainsAny(glob, `[\`) {
				t.Fatalf("%q is refused: %v", glob, err)
			}
			return
		}
		got := p.Matches(name, false)
		if name == names.Other {
			if !got {
				t.Fatalf("%q does not bind %q", glob, name)
			}
			return
		}
		// Bytes that are no text are taken for U+FFFD, here as there.
		if want := naiveGlob([]rune(glob), []rune(name)); got != want {
			t.Fatalf("%q on %q is %v", glob, name, got)
		}
	})
}

// What a pattern takes is bounded: repetitions, and classes of thousands of characters,
// make much of little text.
func TestCompile_Size(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"abc": 4, "a{1000}": 1001, "(?:ab{10}){5}": 61, "[a-z]+": 3, `\d`: 2, "a|bc|de": 7, "(a{2,7}){3,}": 25,
		"": 2, "x*": 3,
	} {
		p, err := pattern.Compile(rule.Regexp, text)
		require.NoError(t, err)
		require.Equal(t, want, p.Size(), text)
	}
	letters, err := pattern.Compile(rule.Regexp, `\pL{1,50}`)
	require.NoError(t, err, "a reasonable one")
	require.Greater(t, letters.Size(), 100, "the class is large, but there is one of it")
	p, err := pattern.Compile(rule.Default, "*")
	require.NoError(t, err)
	require.Zero(t, p.Size())
	for _, glob := range []string{strings.Repeat("*a", 512), strings.Repeat("?", 1024), strings.Repeat("[a-z]", 204), strings.Repeat("ü", 512)} {
		_, err := pattern.Compile(rule.Glob, glob)
		require.NoError(t, err, "no glob of the length of a name is too large")
	}
	for _, text := range []string{`a{1000}b{1000}`, strings.Repeat(`\pL{1000}`, 100), strings.Repeat(`\pL`, 340), `((a{10}){10}b?){10}((a{10}){10}b?){10}`} {
		_, err := pattern.Compile(rule.Regexp, text)
		require.ErrorContains(t, err, "; want at most 2000", text)
	}
	_, err = pattern.Compile(rule.Regexp, `a{1000}b{1000}`)
	require.EqualError(t, err, "it has 2002 steps when all repetitions are written out; want at most 2000")
}

// The shape of a regular expression, by which most names are told apart, lets through
// whatever it matches, whatever is in names.
func FuzzRegexp(f *testing.F) {
	for _, text := range []string{
		"", "a", "a.c", ".*", "a+b*c?", "(ab){2,}x", "x|yz", "(?i)Get /k", `\bab\b$`, "[a-c]+[^x]", "(?s).a.", `\Qa*b`, "a{0}", "\ufffd+", "(a*)+b",
		"GET /users/[0-9]+", "(?:)", "^$", `\pL\d`, "(?m)^a$\n^b$", "[^\\x00-\\x{10FFFF}]",
	} {
		for _, name := range []string{"abc", "axc", "ababx", "get /K\u212a", "\xffa\xff", "a\nb", "GET /users/17"} {
			f.Add(text, name)
		}
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := pattern.Compile(rule.Regexp, text)
		if err != nil || name == names.Other {
			return
		}
		want, err := regexp.Compile(`\A(?:` + text + `)\z`)
		if err != nil {
			return // it ends in a quotation
		}
		if got := p.Matches(name, false); got != want.MatchString(name) {
			t.Fatalf("%q on %q is %v", text, name, got)
		}
	})
}
