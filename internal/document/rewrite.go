package document

import (
	"bytes"
	"errors"
	"slices"

	"go.yaml.in/yaml/v4"
)

// ListEdit is one list of a document, as it shall be: of mappings, which are made from those that
// it has.
type ListEdit struct {
	Name  string
	Items []ItemEdit
}

// ItemEdit is one mapping of a list, as it shall be.
type ItemEdit struct {
	// From is which of the mappings of the list it is made from, from 0; or −1: it is new.
	From   int
	Fields []FieldEdit // all that it shall have
}

// FieldEdit is one field of a mapping, as it shall be.
type FieldEdit struct {
	Name string
	// Value is what it shall hold, as it stands in YAML, with quotes if it must have them.
	Value string
	// Keep leaves a field as it is, and does not add it if it is not there.
	Keep bool
}

// ErrRewrite is the error of a document that [Rewrite] cannot make the lists in.
var ErrRewrite = errors.New("the document is no mapping with lists")

// Rewrite returns a YAML document with changed lists of mappings. Everything else stays: comments, the order of fields,
// the notation of values. Removed mappings and fields lose their comments. Indentation
// is made even, blank lines may be removed, and the YAML reader ignores comments in unusual places.
//
// The document must be one that [Parse] takes.
func Rewrite(data []byte, lists []ListEdit) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Load(bytes.TrimPrefix(data, []byte("\ufeff")), &doc); err != nil {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, ErrRewrite
	}
	root := doc.Content[0]
	compact := false // whether the items of a list stand as far left as its name
	for i := 0; i < len(root.Content); i += 2 {
		if key, value := root.Content[i], root.Content[i+1]; value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle == 0 {
			compact = value.Column == key.Column
			break
		}
	}
	for _, list := range lists {
		if err := list.apply(root); err != nil {
			return nil, err
		}
	}
	var text bytes.Buffer
	dumper, err := yaml.NewDumper(&text, yaml.WithIndent(2), yaml.WithCompactSeqIndent(compact), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(dumper.Dump(&doc), dumper.Close()); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

func (l ListEdit) apply(root *yaml.Node) error {
	at := keyOf(root.Content, l.Name)
	if at < 0 {
		if len(l.Items) == 0 {
			return nil
		}
		root.Content = append(root.Content, scalar(l.Name), &yaml.Node{Kind: yaml.SequenceNode})
		at = len(root.Content) - 2
	}
	list := root.Content[at+1]
	if list.Kind != yaml.SequenceNode { // null
		*list = yaml.Node{Kind: yaml.SequenceNode, HeadComment: list.HeadComment, LineComment: list.LineComment, FootComment: list.FootComment}
	}
	before := list.Content
	list.Content = make([]*yaml.Node, len(l.Items))
	for i, item := range l.Items {
		node := &yaml.Node{Kind: yaml.MappingNode}
		if item.From >= len(before) {
			return ErrRewrite
		}
		if item.From >= 0 {
			node = before[item.From]
		}
		if node.Kind != yaml.MappingNode {
			return ErrRewrite
		}
		if err := item.apply(node); err != nil {
			return err
		}
		list.Content[i] = node
	}
	// What stands beside the name of the list, or beside [], is written where it is read from.
	key := root.Content[at]
	switch {
	case len(list.Content) == 0:
		list.Style |= yaml.FlowStyle // []
		if list.LineComment == "" {
			list.LineComment, key.LineComment = key.LineComment, ""
		}
	case len(before) == 0:
		list.Style &^= yaml.FlowStyle
		if key.LineComment == "" {
			key.LineComment, list.LineComment = list.LineComment, ""
		}
	}
	return nil
}

// keyOf returns where the key of a field stands in the content of a mapping, or −1.
func keyOf(content []*yaml.Node, name string) int {
	for i := 0; i < len(content); i += 2 {
		if content[i].Value == name {
			return i
		}
	}
	return -1
}

func (it ItemEdit) apply(node *yaml.Node) error {
	fields := make([]*yaml.Node, 0, 2*len(it.Fields))
	wanted := make(map[string]*FieldEdit, len(it.Fields))
	for i := range it.Fields {
		wanted[it.Fields[i].Name] = &it.Fields[i]
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		want := wanted[key.Value]
		if want == nil {
			if n := len(fields); n > 0 && key.FootComment != "" { // it comes after the field, and need not be about it
				fields[n-2].FootComment = joined(fields[n-2].FootComment, key.FootComment)
			}
			continue
		}
		if !want.Keep {
			set(value, want.Value)
		}
		fields = append(fields, key, value)
	}
	at := 0 // behind the field before
	for _, f := range it.Fields {
		i := keyOf(fields, f.Name)
		switch {
		case i >= 0:
			at = i + 2
		case !f.Keep:
			value := &yaml.Node{}
			set(value, f.Value)
			fields = slices.Insert(fields, at, scalar(f.Name), value)
			at += 2
		}
	}
	node.Content = fields
	return nil
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n\n" + b
}

func scalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// set puts a value, as it stands in YAML, into a node, and leaves its comments.
func set(node *yaml.Node, value string) {
	var doc yaml.Node
	if err := yaml.Load([]byte(value), &doc); err != nil || len(doc.Content) != 1 {
		*node = *scalar(value) // which is not good, as reading it will show
		return
	}
	next := *doc.Content[0]
	next.HeadComment, next.LineComment, next.FootComment = node.HeadComment, node.LineComment, node.FootComment
	*node = next
}
