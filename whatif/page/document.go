// Package page writes the results of package whatif as text, as JSON and as an HTML page in one file.
package page

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/leapgate-go/leapgate/whatif"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
)

// Document is a report, a comparison or a suggestion. Log is nil if the requests are not from an access log.
type Document struct {
	Log        *accesslog.Seen    `json:"log,omitempty"`
	Report     *whatif.Report     `json:"report,omitempty"`
	Comparison *whatif.Comparison `json:"comparison,omitempty"`
	Suggestion *whatif.Suggestion `json:"suggestion,omitempty"`
}

// WriteText writes the document for terminals.
func (d *Document) WriteText(w io.Writer) error {
	if d.Log != nil {
		if err := d.Log.WriteText(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	switch {
	case d.Comparison != nil:
		return d.Comparison.WriteText(w)
	case d.Suggestion != nil:
		return d.Suggestion.WriteText(w)
	default:
		return d.Report.WriteText(w)
	}
}

// WriteJSON writes the document for programs.
func (d *Document) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
