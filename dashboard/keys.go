package dashboard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/leapgate-go/leapgate/internal/enum"
	"github.com/leapgate-go/leapgate/internal/field"
	"github.com/leapgate-go/leapgate/internal/kinds"
)

// Audience is who is shown something.
type Audience uint8

const (
	// Editors are those whom [Config.Authorize] lets change rules.
	Editors Audience = iota
	// Everybody is whoever can reach the handler.
	Everybody
	// Nobody is nobody, editors included.
	Nobody
)

var audiences = enum.Enum[Audience]{What: "Audience", Names: []string{"Editors", "Everybody", "Nobody"}}

// String returns the name: "Editors".
func (a Audience) String() string { return audiences.String(a) }

// visibility says what of an answer a viewer sees as it is, besides names of resources and figures.
type visibility uint8

const (
	seesRules visibility = 1 << iota // all of rules, edits and rule sources
	seesKeys                         // keys of limiters, values of arguments, and origins of blocked calls
	visibilities
)

func (d *Dashboard) visibilityOf(r *http.Request) visibility {
	if d.cfg.ShowKeys == Everybody {
		return seesRules | seesKeys
	}
	_, ok := d.editor(r)
	return d.visibilityFor(ok)
}

// visibilityFor returns what a viewer sees who may change rules or not.
func (d *Dashboard) visibilityFor(editor bool) visibility {
	switch {
	case d.cfg.ShowKeys == Everybody, editor && d.cfg.ShowKeys == Editors:
		return seesRules | seesKeys
	case editor:
		return seesRules
	default:
		return 0
	}
}

// hide replaces in part of an answer what a viewer must not see. It is the only place that decides that.
func (d *Dashboard) hide(sees visibility, part any) {
	keys, rules := sees&seesKeys != 0, sees&seesRules != 0
	switch v := part.(type) {
	case *figuresView:
		if keys {
			return
		}
		if v.LastRefusal != nil {
			v.LastRefusal.Origin = d.hash(v.LastRefusal.Origin)
		}
		for _, values := range [][]valueView{v.Busiest, v.RefusedMost} {
			for i := range values {
				values[i].Value = d.hash(values[i].Value)
			}
		}
	case []limiterView:
		if keys {
			return
		}
		for _, l := range v {
			for i := range l.Offenders {
				l.Offenders[i].Key = d.hash(l.Offenders[i].Key)
			}
		}
	case ruleText:
		if rules {
			return
		}
		*v.kind.Head(v.rules, v.i).Source = withoutFolder(*v.kind.Head(v.rules, v.i).Source)
		for n, text := range v.private() {
			text.Text = d.hash(text.Text)
			_ = v.kind.Read(v.rules, v.i, n, text) // any text is good for a field that had one
		}
	case []edited:
		if rules {
			return
		}
		for i := range v {
			v[i].Who, v[i].What, v[i].Source = "", v[i].public, withoutFolder(v[i].Source)
		}
	case []string: // names of sources and files
		if rules {
			return
		}
		for i := range v {
			v[i] = withoutFolder(v[i])
		}
	case []sourceView:
		if rules {
			return
		}
		for i := range v {
			v[i].Source = withoutFolder(v[i].Source)
			d.hide(sees, v[i].Files)
			for k := range v[i].Errors {
				f := &v[i].Errors[k]
				f.File = withoutFolder(f.File)
				if !isPublic(f.Field) && f.Message != andMore.Message {
					f.Field, f.Message = "", "only those who may change rules see what is wrong"
				}
			}
		}
	default:
		panic(fmt.Sprintf("dashboard: nothing says what of a %T is hidden", part))
	}
}

// ruleText is a rule whose fields are about to be shown.
type ruleText struct {
	kind  kinds.Kind
	rules *kinds.Rules
	i     int
}

// private returns the texts of the rule that may tell who clients are, by the indexes of their fields.
func (r ruleText) private() map[int]field.Scalar {
	texts := make(map[int]field.Scalar)
	for n, f := range r.kind.Fields() {
		if !f.Private {
			continue
		}
		if text, zero, err := r.kind.Write(r.rules, r.i, n); err == nil && !zero {
			texts[n] = text
		}
	}
	return texts
}

// isPublic reports whether rules have a field of that name that everybody may see.
func isPublic(name string) bool {
	return slices.ContainsFunc(kinds.All, func(k kinds.Kind) bool {
		return slices.ContainsFunc(k.Fields(), func(f kinds.Field) bool { return f.Name == name && !f.Private })
	})
}

// withoutFolder returns the last element of an absolute path, and any other text as it is.
func withoutFolder(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Base(name)
	}
	return name
}

// hash returns what is shown in place of a key or an origin to those who may not see it. The
// empty one, which is nobody's, stays.
func (d *Dashboard) hash(key string) string {
	if key == "" {
		return ""
	}
	hash := hmac.New(sha256.New, d.secret) // addresses are few: a bare hash could be undone
	_, _ = hash.Write([]byte(key))         // it never fails
	return "key-" + hex.EncodeToString(hash.Sum(nil)[:8])
}
