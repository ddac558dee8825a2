package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed page
var pageFiles embed.FS

type file struct {
	body      []byte
	mediaType string
	etag      string
	packed    func() []byte // the body in gzip
}

// mediaTypes are those of the page's files. Package mime asks the system, which may say
// something else.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

const index = "index.html"

var embedded = sync.OnceValue(func() map[string]file {
	entries, err := pageFiles.ReadDir("page")
	if err != nil {
		panic(err) // it is embedded
	}
	page := make(map[string]file, len(entries))
	for _, entry := range entries {
		body, err := pageFiles.ReadFile("page/" + entry.Name())
		mediaType := mediaTypes[path.Ext(entry.Name())]
		if err != nil || mediaType == "" {
			continue // a folder, or what is not part of the page; a test says so
		}
		page[entry.Name()] = file{
			body, mediaType, fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(body))[:32]),
			sync.OnceValue(func() []byte { return pack(body) }),
		}
	}
	return page
})

func (d *Dashboard) servePage(w http.ResponseWriter, r *http.Request, name string) {
	if name == "" {
		name = index
	}
	f, ok := d.page[name]
	if !ok {
		fail(w, problem{Status: http.StatusNotFound, Detail: "there is no such page"})
		return
	}
	if !allowed(w, r, http.MethodGet) {
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Add("Vary", "Accept-Encoding")
	if takesGzip(r) {
		f.body, f.etag = f.packed(), strings.TrimSuffix(f.etag, `"`)+`-gzip"`
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(f.body))) // ServeContent leaves it out if there is an encoding
	}
	h.Set("ETag", f.etag)
	h.Set("Cache-Control", "no-cache") // kept, and asked for again: the next release may differ
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}

func pack(body []byte) []byte {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(body)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // the level is a good one, and memory takes all
	}
	return packed.Bytes()
}

// takesGzip reports whether the client accepts gzip by name, as all browsers do.
func takesGzip(r *http.Request) bool {
	for one := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, weighted := strings.Cut(strings.ToLower(one), ";")
		if strings.TrimSpace(coding) != "gzip" {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return !weighted || err == nil && q > 0
	}
	return false
}
