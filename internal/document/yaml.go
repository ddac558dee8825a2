package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
)

func parseYAML(data []byte) (*Node, *Fault) {
	if fault := checkCharacters(data); fault != nil {
		return nil, fault
	}
	if tooManyValues(data) {
		return nil, tooMany(0, 0)
	}
	limits := loaderlimits.New(loaderlimits.DepthValue(MaxDepth), loaderlimits.AliasValue(0))
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(limits), yaml.WithUniqueKeys(false))
	if err != nil {
		return nil, &Fault{Message: err.Error()}
	}
	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxFault(data, err)
	}
	if err := loader.Load(&second); err == nil {
		return nil, &Fault{second.Line, second.Column, "a second document begins here; want one document in a file"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxFault(data, err)
	}
	if len(first.Content) != 1 {
		return nil, nil
	}
	root := first.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" && root.Value == "" && root.Anchor == "" {
		return nil, nil // a file with --- and comments
	}
	return convert(root, 0)
}

// checkCharacters finds what the reader refuses without telling where.
func checkCharacters(data []byte) *Fault {
	bad := func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r < 0xa0 && r != 0x85 || r == 0xfffe || r == 0xffff
	}
	if at := bytes.IndexFunc(data, bad); at >= 0 {
		r, _ := utf8.DecodeRune(data[at:])
		line, column := (&cursor{data: data, line: 1, column: 1}).to(at)
		return &Fault{line, column, fmt.Sprintf("the control character %U; want it escaped, in double quotes", r)}
	}
	return nil
}

// tooManyValues reports whether there may be more values than are allowed: one after each
// character that can begin the next. The reader cannot be told to stop, and looks far ahead,
// so they are counted before.
func tooManyValues(data []byte) bool {
	separators, marks := 0, 0
	for i, b := range data {
		switch b {
		case ',', '[', '{':
			separators++
		case ':', '-', '?':
			if i+1 == len(data) || strings.IndexByte(" \t\r\n,[]{}\"'", data[i+1]) >= 0 {
				separators++
			}
		case '"', '\'':
			marks++ // two to a value
		case '&', '*', '!':
			marks += 2
		}
	}
	return separators >= MaxValues || marks >= 2*MaxValues
}

func convert(y *yaml.Node, depth int) (*Node, *Fault) {
	fault := func(format string, args ...any) (*Node, *Fault) {
		return nil, &Fault{max(y.Line, 1), max(y.Column, 1), fmt.Sprintf(format, args...)}
	}
	switch {
	case depth > MaxDepth:
		return nil, tooDeep(y.Line, y.Column)
	case y.Kind == yaml.AliasNode:
		return fault("an alias (*%.32s); rule files have none, write the value out, or put it in quotes if it is text", escape.Text(y.Value))
	case y.Anchor != "":
		return fault("an anchor (&%.32s); rule files have none, write the value out, or put it in quotes if it is text", escape.Text(y.Anchor))
	case y.Style&yaml.TaggedStyle != 0:
		return fault("a tag (%.32s); rule files have none, put text in quotes", escape.Text(y.Tag))
	}
	node := &Node{Line: y.Line, Column: y.Column}
	switch y.Kind {
	case yaml.SequenceNode:
		node.Type = List
		node.Items = make([]*Node, len(y.Content))
		for i, item := range y.Content {
			var fault *Fault
			if node.Items[i], fault = convert(item, depth+1); fault != nil {
				return nil, fault
			}
		}
	case yaml.MappingNode:
		node.Type = Mapping
		node.Fields = make([]Field, len(y.Content)/2)
		for i := range node.Fields {
			key, fault := convert(y.Content[2*i], depth+1)
			if fault != nil {
				return nil, fault
			}
			if y.Content[2*i].ShortTag() == "!!merge" {
				return nil, &Fault{key.Line, key.Column, "a merge key (<<); rule files have none, write the fields out"}
			}
			if key.Type == List || key.Type == Mapping {
				return nil, &Fault{key.Line, key.Column, fmt.Sprintf("%v as the name of a field; want text, or quotes around what is text with [ or {", key.Type)}
			}
			value, fault := convert(y.Content[2*i+1], depth+1)
			if fault != nil {
				return nil, fault
			}
			node.Fields[i] = Field{key.Text, key.Line, key.Column, value}
		}
	case yaml.ScalarNode:
		node.Type, node.Text = scalarType(y), y.Value
	default:
		return fault("something that is no value")
	}
	return node, nil
}

func scalarType(y *yaml.Node) Type {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if y.Style&quoted == 0 && field.IsNumber(y.Value) {
		return Number // also one that is too large for a float64, as in JSON
	}
	switch y.ShortTag() {
	case "!!null":
		return Null
	case "!!bool":
		return Bool
	case "!!int", "!!float":
		return Number
	default: // also what looks like a date
		return Text
	}
}

// plainer says in plain words what the reader's most frequent messages mean.
var plainer = []struct{ message, words string }{
	{"mapping values are not allowed", `a colon that does not fit; put text with ": " in quotes, or look at the indentation and the line before`},
	{"did not find expected key", "the indentation does not fit that of the lines before"},
	{"did not find expected '-' indicator", "the indentation does not fit that of the list before; want - or less indentation"},
	{"did not find expected alphabetic or numeric character", "a value that begins with * or & is no text in YAML; put it in quotes"},
	{"did not find expected ',' or ']'", "want a comma or ]"},
	{"did not find expected ',' or '}'", "want a comma or }"},
	{"did not find expected <document start>", "something stands after the end of the document; put text with brackets in quotes"},
	{"could not find expected ':'", "a line without a colon; want name: value"},
	{"exceeded max depth", fmt.Sprintf("more than %d lists and mappings in each other", MaxDepth)},
	{"unknown escape character", `a bad escape; in double quotes a \ is written \\`},
	{"unexpected end of stream", "text in quotes that does not end"},
	{"unknown anchor", "an alias (*); rule files have none, put the value in quotes if it is text"},
	{"alias", "an alias (*); rule files have none, put the value in quotes if it is text"},
}

func syntaxFault(data []byte, err error) *Fault {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return &Fault{Message: "bad YAML: " + escape.Text(err.Error())}
	}
	fault := &Fault{Line: load.Mark.Line, Column: load.Mark.Column, Message: "bad YAML: " + escape.Text(load.Message)}
	if blank := oddBlank(data, fault.Line); blank != nil {
		return blank
	}
	if load.ContextMark.Line > 0 && (strings.Contains(load.Message, "unexpected end of stream") || strings.Contains(load.Message, "alphabetic")) {
		// Where it begins helps more than where it cannot go on.
		fault.Line, fault.Column = load.ContextMark.Line, load.ContextMark.Column
	}
	if strings.Contains(load.Message, "cannot start any token") {
		fault.Message = "a character that cannot begin a value; put the value in quotes"
		line := []rune(lineOf(data, fault.Line))
		if at := fault.Column - 1; at >= 0 && at < len(line) {
			if line[at] == '\t' {
				fault.Message = "a tab; YAML is indented with spaces"
			} else {
				fault.Message = fmt.Sprintf("%q cannot begin a value; put the value in quotes", line[at])
			}
		}
		return fault
	}
	for _, p := range plainer {
		if strings.Contains(load.Message, p.message) {
			fault.Message = p.words
			break
		}
	}
	return fault
}

// oddBlank finds a blank that is none in YAML, such as a non-breaking space, in the indentation or
// behind a colon or a hyphen of a line, or of the one before it that says something. The reader
// takes it for text, and stumbles over what comes after.
func oddBlank(data []byte, line int) *Fault {
	var before, found *Fault // in the last two lines that say something
	n := 0
	for text := range strings.Lines(string(data)) {
		if n++; n > line {
			break
		}
		if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		before, found = found, nil
		if column, r := oddBlankIn(text); column > 0 {
			found = &Fault{n, column, fmt.Sprintf("a blank that is none in YAML, %U; want a plain space", r)}
		}
	}
	if found == nil {
		return before
	}
	return found
}

// oddBlankIn returns the column of such a blank in a line, and which it is; 0 if there is none.
func oddBlankIn(line string) (column int, r rune) {
	could := true // a blank could be here
	for _, r := range line {
		column++
		switch {
		case r == ' ' || r == '\t':
		case could && (unicode.Is(unicode.Zs, r) || r == '\u200b' || r == '\ufeff'):
			return column, r
		default:
			could = r == ':' || r == '-'
		}
	}
	return 0, 0
}
