package rulefile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/document"
)

// hostile returns files of about that many bytes that ask for much work, by name.
func hostile(size int) map[string]string {
	const values = document.MaxValues/2 - 1000
	fill := func(head, unit, tail string) string {
		return head + strings.Repeat(unit, min((size-len(head)-len(tail))/len(unit), values)) + tail
	}
	// Each unit has its number in it.
	number := func(head, unit, tail string) string {
		var text strings.Builder
		text.WriteString(head)
		for i := 0; text.Len()+len(unit)+len(tail)+6 < size && i < values/3; i++ {
			fmt.Fprintf(&text, unit, i)
		}
		text.WriteString(tail)
		return text.String()
	}
	return map[string]string{
		"one field again and again.json":        fill(`{"flow":[{"threshold":1`, `,"a":1`, `}]}`),
		"one known field again and again.json":  fill(`{"flow":[{"threshold":1`, `,"threshold":1`, `}]}`),
		"one list again and again.json":         fill(`{"flow":[]`, `,"flow":[]`, `}`),
		"unknown fields.json":                   number(`{"flow":[{"threshold":1`, `,"a%d":1`, `}]}`),
		"unknown lists.json":                    number(`{"flow":[]`, `,"a%d":1`, `}`),
		"long name and many faults.json":        fill(`{"flow":[{"threshold":1`+strings.Repeat(`,"a":1`, 1000)+`,"id":"`, `x`, `"}]}`),
		"long name of a field, twice.json":      `{"flow":[{"threshold":1` + strings.Repeat(fmt.Sprintf(`,"%s":1`, strings.Repeat("x", size/3)), 2) + `}]}`,
		"long name of a list, twice.json":       `{"flow":[]` + strings.Repeat(fmt.Sprintf(`,"%s":1`, strings.Repeat("x", size/3)), 2) + `}`,
		"long number.json":                      fill(`{"flow":[{"resource":"x","threshold":`, `1`, `}]}`),
		"long number where text is wanted.json": fill(`{"flow":[{"resource":`, `1`, `,"threshold":1}]}`),
		"long number without a unit.json":       fill(`{"flow":[{"resource":"x","threshold":1,"interval":"`, `1`, `"}]}`),
		"wrong values.json":                     fill(`{"flow":[{"resource":"x","threshold":-1}`, `,{"resource":"x","threshold":-1}`, `]}`),
		"one ID.json":                           fill(`{"flow":[{"id":"x","resource":"x","threshold":1}`, `,{"id":"x","resource":"x","threshold":1}`, `]}`),
		"rules without fields.json":             fill(`{"flow":[{}`, `,{}`, `]}`),
		"no rules in the list.json":             fill(`{"flow":[1`, `,1`, `]}`),
		"patterns.json":                         number(`{"flow":[{"resource":"x","threshold":1}`, `,{"resource":"x%d*","match":"glob","threshold":-1}`, `]}`),
		"brackets.json":                         fill(``, `[`, ``),
		"one field again and again.yaml":        fill("flow:\n- threshold: 1\n", "  a: 1\n", ""),
		"comments between rules.yaml":           fill("flow:\n", "- a: 1\n  # x\n\n", ""),
		"comments above a field.yaml":           fill("flow:\n- a: 1\n", "  # aaaaaa\n", "  b: 1\n"),
		"comments alone.yaml":                   fill("", "#\n", ""),
		"lines of text.yaml":                    fill("flow:\n", " a\n", ""),
		"text in quotes that does not end.yaml": fill("flow: \"", "a ", ""),
		"brackets.yaml":                         fill("", "[", ""),
		"dashes.yaml":                           fill("", "- ", ""),
		"colons.yaml":                           fill("", ": ", ""),
		"anchors.yaml":                          fill("flow: ", "&a ", ""),
		"aliases.yaml":                          "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
		"documents.yaml":                        fill("", "---\n", ""),
		"blank space.yaml":                      fill("flow: []", " ", ""),
	}
}

// Whatever is in a file, what is said about it can be read, and was not made in vain.
func TestParse_ErrorsOfHostileFilesAreShort(t *testing.T) {
	t.Parallel()
	for name, text := range hostile(document.MaxSize / 128) {
		_, err := Parse(name, []byte(text))
		if err == nil {
			continue
		}
		var errs Errors
		require.ErrorAs(t, err, &errs)
		require.LessOrEqual(t, len(errs), maxErrors+1, name)
		for _, e := range errs {
			require.LessOrEqual(t, len(e.Error()), 1000, name)
		}
	}
}

// With the name of a rule in it, each error would look through the whole rule.
func BenchmarkParse_Hostile(b *testing.B) {
	for name, text := range hostile(document.MaxSize) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Parse(name, []byte(text)) // it is no good
			}
		})
	}
}
