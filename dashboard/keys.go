package dashboard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/leapgate-go/leapgate/internal/enum"
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

type visibility int

const (
	keysHidden visibility = iota
	keysShown
	visibilities
)

func (d *Dashboard) visibilityOf(r *http.Request) visibility {
	switch d.cfg.ShowKeys {
	case Everybody:
		return keysShown
	case Editors:
		if _, ok := d.editor(r); ok {
			return keysShown
		}
	case Nobody:
	}
	return keysHidden
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
