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
		{"a: b\x00", false, 1, 5, "the control character U+0000; want it escaped, in double quotes"},
		{"a:\n  - \u007f", false, 2, 5, "the control character U+007F; want it escaped, in double quotes"},
		{"a: b: c", false, 1, 5, `a colon that does not fit; put text with ": " in quotes, or look at the indentation and the line before`},
		{"a: 1\n b: 2\n", false, 2, 3, `a colon that does not fit; put text with ": " in quotes, or look at the indentation and the line before`},
		{"a: 'x'\n b: 2\n", false, 2, 2, "the indentation does not fit that of the lines before"},
		{"- a\nb: 1\n", false, 2, 1, "the indentation does not fit that of the list before; want - or less indentation"},
		{"a:\n\tb: 1\n", false, 2, 1, "a tab; YAML is indented with spaces"},
		{"a: @x\n", false, 1, 4, "'@' cannot begin a value; put the value in quotes"},
		{"a: %x\n", false, 1, 4, "'%' cannot begin a value; put the value in quotes"},
		{"a: *\n", false, 1, 4, "a value that begins with * or & is no text in YAML; put it in quotes"},
		{"a: *.html\n", false, 1, 4, "an alias (*); rule files have none, put the value in quotes if it is text"},
		{"a: &b 1\n", false, 1, 4, "an anchor (&b); rule files have none, write the value out, or put it in quotes if it is text"},
		{"a: &b 1\nc: *b\n", false, 1, 4, "an anchor (&b); rule files have none, write the value out, or put it in quotes if it is text"},
		{"<<: {a: 1}\n", false, 1, 1, "a merge key (<<); rule files have none, write the fields out"},
		{"a: !!str 5\n", false, 1, 4, "a tag (!!str); rule files have none, put text in quotes"},
		{"a: !x\n", false, 1, 4, "a tag (!x); rule files have none, put text in quotes"},
		{"[a]: 5\n", false, 1, 1, "a list as the name of a field; want text, or quotes around what is text with [ or {"},
		{"{a: 1}: 5\n", false, 1, 1, "a mapping as the name of a field; want text, or quotes around what is text with [ or {"},
		{"a: 1\n---\nb: 2\n", false, 2, 1, "a second document begins here; want one document in a file"},
		{"a: 1\n--- }\n", false, 2, 5, "bad YAML: did not find expected node content"},
		{"a: 'x\nb: 1\n", false, 1, 4, "text in quotes that does not end"},
		{"a: \"\\q\"", false, 1, 5, `a bad escape; in double quotes a \ is written \\`},
		{"a: [1, 2\nb: 3\n", false, 2, 2, "want a comma or ]"},
		{"a: {b: 1\nc: 3\n", false, 2, 2, "want a comma or }"},
		{"a: [x] y\n", false, 1, 8, "the indentation does not fit that of the lines before"},
		{"flow\nisolation: 1\n", false, 2, 10, `a colon that does not fit; put text with ": " in quotes, or look at the indentation and the line before`},
		{"flow: 1\nisolation\n", false, 3, 1, "a line without a colon; want name: value"},

		{"", true, 0, 0, ""},
		{"{", true, 1, 2, "the end of the file; want a field's name in double quotes"},
		{"[", true, 1, 2, "the file ends where a value should be"},
		{"[1,]", true, 1, 3, "a comma before ']'"},
		{"{\"a\": 1,\n}", true, 1, 8, "a comma before '}'"},
		{"{\"a\" 1}", true, 1, 6, "'1' after a field's name; want a colon"},
		{"{a: 1}", true, 1, 2, "'a'; want a field's name in double quotes"},
		{"{'a': 1}", true, 1, 2, `"'" (JSON wants double quotes); want a field's name in double quotes`},
		{"{\n// hm\n}", true, 2, 1, "'/' (JSON has no comments); want a field's name in double quotes"},
		{"[# hm\n]", true, 1, 2, "'#' (JSON has no comments)"},
		{"[,1]", true, 1, 2, "',' where a value should be"},
		{"[1 2]", true, 1, 4, "'2'; want a comma or ']'"},
		{"{\"a\": 1] ", true, 1, 8, "']'; want a comma or '}'"},
		{"[tru]", true, 1, 2, `"tru"; want text in double quotes, a number, true, false or null`},
		{"[01]", true, 1, 2, `"01"; want text in double quotes, a number, true, false or null`},
		{"[1]\n]", true, 2, 1, "']' after the end of the document"},
		{"flow: []", true, 1, 1, `"flow"; want text in double quotes, a number, true, false or null`},
		{"[\"a", true, 1, 2, "text that does not end"},
		{"[\"a\\", true, 1, 2, "text that does not end"},
		{"[\"a\nb\"]", true, 1, 4, `'\n' in text; want the text on one line, and \n or \t in it`},
		{`["\x"]`, true, 1, 2, `text with a bad escape; want \" \\ \/ \b \f \n \r \t or \u and four hexadecimal digits`},
		{`["\ud800"]`, true, 1, 2, `text with a \u that is half of a pair`},
		{strings.Repeat("[", 40), true, 1, 33, "more than 32 lists and mappings in each other"},
		{strings.Repeat("[", 40), false, 1, 33, "more than 32 lists and mappings in each other"},
		{strings.Repeat("{\"a\":", 40), true, 1, 161, "more than 32 lists and mappings in each other"},
		{strings.Repeat("- ", 40), false, 1, 65, "more than 32 lists and mappings in each other"},
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
			require.Regexp(t, "UTF-8|half of a pair|in each other|values;|larger", fault.Message, "%q", data)
		}
		node, fault = Parse(data, false)
		if fault != nil {
			require.Nil(t, node)
			require.NotEmpty(t, fault.Message)
		}
	})
}

// What looks like a blank and is text is told where it stands, not where the reader stumbles.
func TestParse_BlanksThatAreNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Fault{
		"flow:\n  - id: a\n    resource:\u00a0x\n    threshold: 1\n":            {3, 14, "U+00A0"},
		"flow:\n  - id: a\n    threshold:\u00a01\n":                             {3, 15, "U+00A0"},
		"flow:\n  - id: a\n    resource:\u00a0x\n\n    # why\n    threshold: 1": {3, 14, "U+00A0"},
		"flow:\n  - id: a\n\u00a0   resource: x\n    threshold: 1\n":            {3, 1, "U+00A0"},
		"flow:\n  \u3000- id: a\n    resource: x\n":                             {2, 3, "U+3000"},
		"flow:\n  -\u202fid: a\n    resource: x\n":                              {2, 4, "U+202F"},
		"a: b\n \u200bc: d\n e: f\n":                                            {2, 2, "U+200B"},
	} {
		_, fault := Parse([]byte(text), false)
		require.NotNil(t, fault, "%q", text)
		require.Equal(t, Fault{want.Line, want.Column, "a blank that is none in YAML, " + want.Message + "; want a plain space"}, *fault, "%q", text)
	}
	// Inside of text it is text.
	node, fault := Parse([]byte("a: b\u00a0c\n"), false)
	require.Nil(t, fault)
	require.Equal(t, "b\u00a0c", node.Fields[0].Value.Text)
	_, fault = Parse([]byte("a: b\u00a0c\nd\n"), false)
	require.NotContains(t, fault.Message, "U+00A0")
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
