package dashboard

import (
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate/internal/escape"
)

const (
	anyHost = "*"
	maxHost = 253 // bytes of a name
)

// hosts are the names that the dashboard answers to. A page whose name an attacker owns can be
// led to this server, and to the browser it is then one of the server's own; but it asks under
// that name. An IP address cannot be led elsewhere, and localhost is nobody's.
type hosts struct {
	all      bool
	names    []string
	suffixes []string
	dotless  bool // names without a dot, which only a private resolver knows
}

// newHosts makes them of Config.Hosts, which is good.
func newHosts(given []string) hosts {
	h := hosts{names: []string{"localhost"}}
	if len(given) == 0 {
		h.dotless = true
		h.suffixes = []string{".local", ".internal", ".svc"}
		if own, err := os.Hostname(); err == nil {
			given = []string{own}
		}
	}
	for _, name := range given {
		name = strings.TrimSuffix(strings.ToLower(name), ".")
		switch {
		case name == anyHost:
			h.all = true
		case strings.HasPrefix(name, "."):
			h.suffixes = append(h.suffixes, name)
		default:
			h.names = append(h.names, name)
		}
	}
	return h
}

func (h *hosts) allow(host string) bool {
	if h.all {
		return true
	}
	name, ok := withoutPort(host)
	if !ok {
		return false
	}
	if strings.HasPrefix(name, "[") {
		addr, err := netip.ParseAddr(name[1 : len(name)-1])
		return err == nil && addr.Is6()
	}
	name = strings.TrimSuffix(name, ".")
	if !isName(name) {
		return false
	}
	name = strings.ToLower(name)
	if addr, err := netip.ParseAddr(name); err == nil && addr.Is4() {
		return true
	}
	return slices.Contains(h.names, name) || h.dotless && !strings.Contains(name, ".") ||
		slices.ContainsFunc(h.suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// withoutPort cuts the port off a Host. An address of IPv6 keeps its brackets, and must have
// some.
func withoutPort(host string) (name string, ok bool) {
	name, port := host, ""
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']') + 1
		if end == 0 {
			return "", false
		}
		name, port = host[:end], host[end:]
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		name, port = host[:i], host[i:]
	}
	if port == "" {
		return name, true
	}
	return name, port[0] == ':' && strings.Trim(port[1:], "0123456789") == ""
}

func isName(s string) bool {
	if s == "" || len(s) > maxHost || s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, "..") {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// hostFault says what would be right for an entry of Config.Hosts, if it is not.
func hostFault(entry string) (want string) {
	name := strings.TrimPrefix(strings.TrimSuffix(entry, "."), ".")
	if entry == anyHost || isName(name) {
		return ""
	}
	return `a name without port such as "gate.example.com", ".example.com" for all names below that, or "*" for any`
}

// foreign reports whether the Origin of a request is another than its Host, so that a page from
// elsewhere has made it. Which of http and https it is cannot be compared: a proxy may speak
// TLS for the server. Browsers tell in Sec-Fetch-Site if a page differs in that alone.
func foreign(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return false // of the page itself, browsers only send it along with changes
	}
	scheme, host, _ := strings.Cut(strings.ToLower(origins[0]), "://")
	port := map[string]string{"http": ":80", "https": ":443"}[scheme]
	return len(origins) > 1 || host == "" || port == "" ||
		strings.TrimSuffix(host, port) != strings.TrimSuffix(strings.ToLower(r.Host), port)
}

// ownHostAndOrigin answers a request that comes under a name that is none of ours, or from a page of
// another origin.
func (d *Dashboard) ownHostAndOrigin(w http.ResponseWriter, r *http.Request) bool {
	if !d.hosts.allow(r.Host) {
		d.hostFault.Do(func() {
			d.cfg.Logger.LogAttrs(r.Context(), slog.LevelWarn,
				"leapgate: the dashboard was asked for under a name that is not its own, and refused; if it is, name it in Config.Hosts. This is logged once",
				slog.String("host", escape.Text(shortened(r.Host))))
		})
		fail(w, problem{
			Status: http.StatusMisdirectedRequest,
			Detail: "this dashboard is not served under " + quoted(r.Host) + "; if it shall be, name it in Config.Hosts",
		})
		return false
	}
	if foreign(r) {
		fail(w, problem{
			Status: http.StatusForbidden,
			Detail: "the request comes from another origin: its Origin is not its Host; a proxy in between must keep the Host",
		})
		return false
	}
	return true
}
