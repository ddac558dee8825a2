// Package dashboard shows a gate live: one embedded page, with a JSON and event-stream
// API beside it.
//
//	mux.Handle("/leapgate/", dashboard.Handler(gate, dashboard.Config{}))
//
// The page needs nothing but this handler: it has no third-party code and loads nothing from
// elsewhere. What the API says is written down in API.md beside this file.
//
// Whoever can reach the handler can read names and figures, so put it on a port, or behind a
// handler, that only operators reach. Pages from elsewhere that their browsers open cannot
// read it: a request for a Host that is not one of [Config.Hosts] is refused, for an attacker
// can lead a name of his own to your address, and so is one with the Origin of another page.
// Rules can be changed only if the program passes [Config.Authorize].
//
// The timeouts of an [http.Server] do not end those who watch, so set them: its WriteTimeout
// bounds how long one who does not read keeps an answer in memory.
//
// The handler costs nothing while nobody looks: it reads totals that the gate keeps anyway, a
// second apart, once for all viewers, in a goroutine that lives as long as there are any.
// Entries never notice.
//
// With [Config.KeepHistory] it also reads while nobody looks, and keeps the last hour of each
// resource and each of its rules in steps of 5 s, the last minute by seconds, and how many calls wanted
// in, by the seconds of the hour, in at most [Config.HistoryBytes]. So a page that is opened or loaded
// again begins with them. The line of a limit can be dragged in a chart, by hand or with the arrow keys:
// the page tells about how many calls of the last hour exceeded it, added up over the seconds, and
// those who may edit can set it, or try it as the candidate threshold, which counts exactly. Call [Dashboard.Close] when the program ends.
package dashboard

import (
	"crypto/rand"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/kinds"
	"github.com/leapgate-go/leapgate/stat"
)

// Dashboard is the handler of one gate. Make one with [New] or [Handler].
//
// It works below any path that ends in a slash, with or without [http.StripPrefix]: it looks
// at the end of a path only. So protect all of it, not single paths.
type Dashboard struct {
	gate    *leapgate.Gate
	cfg     Config
	page    map[string]file
	started time.Time
	api     map[string]endpoint
	sources []string              // of rules that can be changed here
	keepers map[string]RuleKeeper // by their sources
	stream  *stream

	past     *past  // nil if none is kept
	stopPast func() // once; it waits until the goroutine has ended

	ruleSources []RuleSource // whose state is shown
	hosts       hosts
	seed        maphash.Seed // of versions
	secret      []byte       // of keys that are not shown
	attempts    *attempts

	reading sync.Mutex    // one request at a time reads all figures
	sending chan struct{} // holds one for each large answer that is made or sent
	editing sync.Mutex    // one rule at a time is changed
	edits   edits         // that were made here, and elsewhere while history is kept

	known        *kinds.Rules // the last of which changes are noted; guarded by editing
	knownVersion string

	hostFault, limiterFault, sourceFault, pastFault sync.Once // each is logged once
}

// New makes a dashboard. It starts no goroutine, unless KeepHistory is set. The error, if any, is [ErrConfig] and says
// everything that is wrong.
func New(gate *leapgate.Gate, cfg Config) (*Dashboard, error) {
	if err := cfg.complete(gate); err != nil {
		return nil, err
	}
	d := &Dashboard{
		gate: gate, cfg: cfg, page: embedded(), keepers: make(map[string]RuleKeeper),
		hosts: newHosts(cfg.Hosts), sending: make(chan struct{}, maxLarge),
		seed: maphash.MakeSeed(), secret: make([]byte, 32),
	}
	_, _ = rand.Read(d.secret) // it never fails
	d.attempts = newAttempts(&d.cfg, d.secret)
	d.started = d.timeOf(nil)
	d.api, d.ruleSources = d.endpoints(), cfg.ruleSources()
	d.stream = newStream(d.read, cfg.MaxViewers, cfg.MaxViewersPerAddress)
	if cfg.Authorize != nil {
		d.sources = []string{""}
		for _, k := range cfg.RuleKeepers {
			d.sources = append(d.sources, k.Source())
			d.keepers[k.Source()] = k
		}
	}
	d.keepPast()
	return d, nil
}

func (d *Dashboard) keepPast() {
	d.stopPast = func() {}
	if !d.cfg.KeepHistory {
		return
	}
	d.past = newPast(d.cfg.HistoryBytes)
	d.noteChanges(d.started, ruleKey{})
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		d.past.run(func() (time.Time, []stat.Snapshot) {
			all := d.snapshot()
			at := d.timeOf(all)
			d.past.feedLoad(at, d.load())
			if d.editing.TryLock() { // an edit may take long, and notes what is changed meanwhile
				d.noteChanges(at, ruleKey{})
				d.editing.Unlock()
			}
			if d.past.lost() > 0 {
				d.pastFault.Do(func() {
					d.cfg.Logger.Warn("leapgate: not all of the history fits into Config.HistoryBytes of the dashboard, and some resources have none. This is logged once",
						slog.Int("bytes", d.cfg.HistoryBytes))
				})
			}
			return at, all
		}, stop)
	})
	d.stopPast = sync.OnceFunc(func() {
		close(stop)
		running.Wait()
	})
}

// Close ends all viewers, for [http.Server.RegisterOnShutdown], since a server waits for them
// when it shuts down, and no more history is kept. Further viewers get 503; all else goes on.
// Closing again does nothing. The error is always nil.
func (d *Dashboard) Close() error {
	d.stopPast()
	d.stream.close()
	return nil
}

// Handler is [New] for a configuration that is known to be good, such as the zero one. It
// panics otherwise.
func Handler(gate *leapgate.Gate, cfg Config) *Dashboard {
	d, err := New(gate, cfg)
	if err != nil {
		panic(err)
	}
	return d
}

// apiPath is what all paths of the API have before their names.
const apiPath = "/api/v1/"

// ServeHTTP serves the page and the API.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if !d.ownHostAndOrigin(w, r) {
		return
	}
	path := r.URL.Path
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // http.StripPrefix("/leapgate/", …)
	}
	// Whatever comes before is the prefix that the handler is mounted on.
	if i := strings.LastIndex(path, apiPath); i >= 0 {
		d.serveAPI(w, r, path[i+len(apiPath):])
		return
	}
	d.servePage(w, r, path[strings.LastIndex(path, "/")+1:])
}

// secure says to browsers what the page may do: only what it needs.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"
