package document

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// show writes a tree in short, with positions.
func show(n *Node) string {
	if n == nil {
		return "-"
	}
	var out strings.Builder
	var walk func(n *Node)
	walk = func(n *Node) {
		switch n.Type {
		case List:
			out.WriteString("[")
			for _, item := range n.Items {
				walk(item)
			}
			out.WriteString("]")
		case Mapping:
			out.WriteString("{")
			for _, f := range n.Fields {
				out.WriteString(f.Key + "=")
				walk(f.Value)
			}
			out.WriteString("}")
		default:
			out.WriteString([]string{"null", "bool", "number", "text", "", ""}[n.Type] + "(" + n.Text + ")")
		}
	}
	walk(n)
	return out.String()
}

func TestParse_Values(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "-",
		"\ufeff \n":                             "-",
		"# nothing\n":                           "-",
		"---\n":                                 "-",
		"---\n# x\n...\n":                       "-",
		"~":                                     "null(~)",
		"null":                                  "null(null)",
		`""`:                                    "text()",
		"a: 1\nb: [x, true, 1.5, ~]\n":          "{a=number(1)b=[text(x)bool(true)number(1.5)null(~)]}",
		"mode: off\nyes: no\non: y":             "{mode=text(off)yes=text(no)on=text(y)}",
		"a: 2020-01-01":                         "{a=text(2020-01-01)}",
		"a: 1e999":                              "{a=number(1e999)}",
		"a: '1'":                                "{a=text(1)}",
		"a: |\n  x\n  y\n":                      "{a=text(x\ny\n)}",
		"a:\nb:\n":                              "{a=null()b=null()}",
		"a: 1\na: 2\n":                          "{a=number(1)a=number(2)}",
		"1: x\ntrue: y":                         "{1=text(x)true=text(y)}",
		"{\"a\": \"\\u00fc\\n\\ud83d\\ude00\"}": "{a=text(ü\n😀)}",
		"[1, -0.5e+3, true, false, null]":       "[number(1)number(-0.5e+3)bool(true)bool(false)null(null)]",
		"{}":                                    "{}",
		"[ ]":                                   "[]",
		`["\ufffd", "` + "\ufffd" + `"]`:        "[text(\ufffd)text(\ufffd)]",
	} {
		node, fault := Parse([]byte(text), false)
		require.Nil(t, fault, text)
		require.Equal(t, want, show(node), text)
	}
}

func TestParse_Faults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text         string
		json         bool
		line, column int
		message      string
	}{
		{"a: \xff", false, 1, 4, "byte 0xff is not UTF-8; want UTF-8 text"},
		{"ü\r\nü: \xc3(", false, 2, 4, "byte 0xc3 is not UTF-8; want UTF-8 text"},
		{"a: b\x00", false, 0, 0, "bad YAML: control characters are not allowed (value: 0)"},
		{"a: b: c", false, 1, 5, "bad YAML: mapping values are not allowed in this context"},
		{"a:\n\tb: 1\n", false, 2, 1, "bad YAML: found character that cannot start any token"},
		{"a: *.html\n", false, 1, 4, "bad YAML: unknown anchor '.html' referenced; put text that starts with * or & in quotes"},
		{"a: &b 1\n", false, 1, 4, "an anchor (&b); rule files have none, write the value out, or put it in quotes if it is text"},
		{"a: &b 1\nc: *b\n", false, 1, 4, "an anchor (&b); rule files have none, write the value out, or put it in quotes if it is text"},
		{"<<: {a: 1}\n", false, 1, 1, "a merge key (<<); rule files have none, write the fields out"},
		{"a: !!str 5\n", false, 1, 4, "a tag (!!str); rule files have none, put text in quotes"},
		{"a: !x\n", false, 1, 4, "a tag (!x); rule files have none, put text in quotes"},
		{"[a]: 5\n", false, 1, 1, "a list as the name of a field; want text, or quotes around what is text with [ or {"},
		{"{a: 1}: 5\n", false, 1, 1, "a mapping as the name of a field; want text, or quotes around what is text with [ or {"},
		{"a: 1\n---\nb: 2\n", false, 2, 1, "a second document begins here; want one document in a file"},
		{"a: 1\n--- }\n", false, 2, 5, "bad YAML: did not find expected node content"},
		{"a: 'x\nb: 1\n", false, 1, 4, "bad YAML: found unexpected end of stream"},

		{"", true, 0, 0, ""},
		{"[\n", true, 1, 2, "bad JSON: unexpected end of JSON input"},
		{"{\"a\": 1,\n}", true, 2, 1, "bad JSON: invalid character '}' looking for beginning of object key string"},
		{"{\n// hm\n}", true, 2, 1, "bad JSON: invalid character '/' looking for beginning of object key string"},
		{"[\"ü\", 01]", true, 1, 8, "bad JSON: invalid character '1' after array element"},
		{"[1]\n]", true, 2, 1, "bad JSON: invalid character ']' after top-level value"},
		{"\"\xc3\"", true, 1, 2, "byte 0xc3 is not UTF-8; want UTF-8 text"},
		{strings.Repeat("[", 40) + strings.Repeat("]", 40), true, 1, 33, "more than 32 lists and mappings in each other"},
		{strings.Repeat("- ", 40), false, 1, 65, "bad YAML: exceeded max depth of 32"},
	} {
		node, fault := Parse([]byte(c.text), c.json)
		require.Nil(t, node, c.text)
		if c.message == "" {
			require.Nil(t, fault)
			continue
		}
		assert.Equal(t, &Fault{c.line, c.column, c.message}, fault, c.text)
	}
}

// A document that refers to itself, or would grow, is refused for its first anchor.
func TestParse_Bombs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a: &a [*a]\n",
		"a: &a [x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nd: [*c,*c,*c]\n",
		"a: &a\n  <<: *a\n",
		"&a *a",
	} {
		_, fault := Parse([]byte(text), false)
		require.NotNil(t, fault, text)
	}
}

// Where a node says it is, its text is; also in the JSON of a YAML file.
func TestParse_Positions(t *testing.T) {
	t.Parallel()
	text := "{\n\t\"k1\": \"v1\",\r\n\t\"ü\": [ \"v2\", {\"k2\":\"v3\"}, 17, true,\r\"v4\"]\n}\n"
	for _, comment := range []string{"", "# YAML\n"} {
		text := text + comment
		node, fault := Parse([]byte(text), false)
		require.Nil(t, fault)
		lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
		seen := 0
		at := func(line, column int, want string) {
			seen++
			require.True(t, strings.HasPrefix(strings.Trim(string([]rune(lines[line-1])[column-1:]), `"`), want), "%d:%d: %s", line, column, want)
		}
		var walk func(n *Node)
		walk = func(n *Node) {
			switch n.Type {
			case List:
				at(n.Line, n.Column, "[")
			case Mapping:
				at(n.Line, n.Column, "{")
			default:
				at(n.Line, n.Column, n.Text)
			}
			for _, item := range n.Items {
				walk(item)
			}
			for _, f := range n.Fields {
				at(f.Line, f.Column, f.Key)
				walk(f.Value)
			}
		}
		walk(node)
		require.Equal(t, 12, seen)
	}
}

func TestParse_Limits(t *testing.T) {
	t.Parallel()
	_, fault := Parse(make([]byte, MaxSize+1), false)
	require.Equal(t, &Fault{0, 0, "the file is larger than 4 MiB"}, fault)
	most := "[" + strings.Repeat("1,", MaxValues-2) + "1]"
	node, fault := Parse([]byte(most), true)
	require.Nil(t, fault)
	require.Len(t, node.Items, MaxValues-1)
	_, fault = Parse([]byte("["+strings.Repeat("1,", MaxValues)+"1]"), false)
	require.Equal(t, "more than 250000 values; split the file", fault.Message)
	_, fault = Parse([]byte(strings.Repeat("-\n", MaxValues)), false)
	require.Equal(t, "more than 250000 values; split the file", fault.Message)
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{`{"a": [1, "x\u00e9", true, null, {}]}`, `[1,]`, `"\ud800"`, "a: [b, {c: d}]\n- e", "\ufeff---\na: |\n  b\n", "[0.1e+5, -0, 01]", "\"\t\""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		node, fault := Parse(data, true)
		trimmed := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
		valid := json.Valid([]byte(strings.TrimPrefix(string(data), "\ufeff")))
		if fault == nil && trimmed != "" {
			require.True(t, valid, "%q is taken for JSON", data)
			require.NotNil(t, node)
		}
		if fault != nil && valid {
			// What is valid and refused is refused for these reasons.
			require.Regexp(t, "UTF-8|in each other|values;|larger", fault.Message, "%q", data)
		}
		node, fault = Parse(data, false)
		if fault != nil {
			require.Nil(t, node)
			require.NotEmpty(t, fault.Message)
		}
	})
}

func TestNode_String(t *testing.T) {
	t.Parallel()
	for want, node := range map[string]Node{
		"nothing": {}, "a list": {Type: List}, "a mapping": {Type: Mapping}, "true": {Type: Bool, Text: "true"}, "1e5": {Type: Number, Text: "1e5"},
		`"a\n"`: {Type: Text, Text: "a\n"}, `"` + strings.Repeat("x", 64) + `"…`: {Type: Text, Text: strings.Repeat("x", 65)},
		strings.Repeat("1", 64) + "…": {Type: Number, Text: strings.Repeat("1", 65)},
	} {
		require.Equal(t, want, node.String())
	}
}
