package document

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/leapgate-go/leapgate/internal/escape"
)

// parseJSON reads a JSON document. The whole text is validated first, so the tokens that follow need no checks.
func parseJSON(data []byte) (*Node, *Fault) {
	p := &jsonParser{dec: stdjson.NewDecoder(bytes.NewReader(data)), cursor: newCursor(data)}
	var syntax *stdjson.SyntaxError
	if err := stdjson.Unmarshal(data, new(stdjson.RawMessage)); errors.As(err, &syntax) {
		line, column := p.cursor.to(int(syntax.Offset) - 1) // Offset includes the invalid character
		return nil, &Fault{line, column, "bad JSON: " + escape.Text(syntax.Error())}
	}
	p.dec.UseNumber()
	node := p.value(0)
	if p.fault != nil {
		return nil, p.fault
	}
	return node, nil
}

type jsonParser struct {
	dec    *stdjson.Decoder
	cursor *cursor
	values int
	fault  *Fault // once it is set, what value returns is void
}

// next returns the next token and its position.
func (p *jsonParser) next() (token stdjson.Token, line, column int) {
	at := int(p.dec.InputOffset())
	at += len(p.cursor.data[at:]) - len(bytes.TrimLeft(p.cursor.data[at:], " \t\r\n,:"))
	line, column = p.cursor.to(at)
	if p.values++; p.values > MaxValues {
		p.fault = tooMany(line, column)
	}
	token, _ = p.dec.Token() // the text is valid
	return token, line, column
}

func (p *jsonParser) value(depth int) *Node {
	token, line, column := p.next()
	node := &Node{Line: line, Column: column}
	switch v := token.(type) {
	case nil:
		node.Text = "null"
	case bool:
		node.Type, node.Text = Bool, fmt.Sprint(v)
	case stdjson.Number:
		node.Type, node.Text = Number, v.String()
	case string:
		node.Type, node.Text = Text, v
	case stdjson.Delim:
		if depth == MaxDepth {
			p.fault = tooDeep(line, column)
			return nil
		}
		node.Type = List
		if v == '{' {
			node.Type = Mapping
		}
		for p.fault == nil && p.dec.More() {
			if node.Type == List {
				node.Items = append(node.Items, p.value(depth+1))
				continue
			}
			key, line, column := p.next()
			node.Fields = append(node.Fields, Field{key.(string), line, column, p.value(depth + 1)})
		}
		_, _ = p.dec.Token() // ] or }
	}
	return node
}
