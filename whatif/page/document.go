// Package page writes what came of trying rules on a log: as text, as JSON, and as a page that
// is one file and needs no network.
package page

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/leapgate-go/leapgate/whatif"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
)

// Document is all that came of it. Log may be nil if the requests are not from an access log; one of
// the others is not.
type Document struct {
	Log        *accesslog.Seen    `json:"log,omitempty"`
	Report     *whatif.Report     `json:"report,omitempty"`
	Comparison *whatif.Comparison `json:"comparison,omitempty"`
	Suggestion *whatif.Suggestion `json:"suggestion,omitempty"`
}

// WriteText writes it for terminals.
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

// WriteJSON writes it for programs.
func (d *Document) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
