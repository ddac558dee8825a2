package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/internal/field"
)

func parseYAML(data []byte) (*Node, *Fault) {
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
		return nil, syntaxFault(err)
	}
	if err := loader.Load(&second); err == nil {
		return nil, &Fault{second.Line, second.Column, "a second document begins here; want one document in a file"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxFault(err)
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

func syntaxFault(err error) *Fault {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		return &Fault{Message: "bad YAML: " + escape.Text(err.Error())}
	}
	mark, hint := load.Mark, ""
	switch {
	case strings.Contains(load.Message, "unexpected end of stream") && load.ContextMark.Line > 0:
		mark = load.ContextMark // where the quoted text starts
	case strings.Contains(load.Message, "alphabetic or numeric"), strings.Contains(load.Message, "unknown anchor"):
		hint = "; put text that starts with * or & in quotes"
	}
	return &Fault{mark.Line, mark.Column, "bad YAML: " + escape.Text(load.Message) + hint}
}
