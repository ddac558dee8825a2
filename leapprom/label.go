package leapprom

import (
	"strings"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
)

// maxLabelLength is the length of the longest label value, in bytes.
const maxLabelLength = 255

// label makes a label value of a name, which may have any bytes: what is not UTF-8 is
// replaced by U+FFFD, and what is too long is cut, with an ellipsis at its end. Different
// names may become the same value.
func label(name string) string {
	const ellipsis = "…"
	cut := len(name) > maxLabelLength
	value := strings.ToValidUTF8(name[:min(len(name), maxLabelLength)], "\uFFFD")
	if !cut && len(value) <= maxLabelLength {
		return strings.Clone(value)
	}
	end := min(len(value), maxLabelLength-len(ellipsis))
	for end < len(value) && !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end] + ellipsis
}

// pairs makes the labels of a metric: names and values by turns, sorted by name.
func pairs(namesAndValues ...string) []*dto.LabelPair {
	all := make([]dto.LabelPair, len(namesAndValues)/2)
	pointers := make([]*dto.LabelPair, len(all))
	for i := range all {
		all[i].Name, all[i].Value = &namesAndValues[2*i], &namesAndValues[2*i+1]
		pointers[i] = &all[i]
	}
	return pointers
}
