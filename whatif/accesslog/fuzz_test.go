package accesslog

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rule"
)

// checkLines parses lines: each is a record within bounds whose fields are of the line, or a fault. What is
// detected for all can read some.
func checkLines(t *testing.T, format Format, text []byte) {
	t.Helper()
	lines := bytes.Split(text, []byte("\n"))
	for _, line := range lines {
		checkLine(t, format, line)
	}
	detected, ok := Detect(lines)
	if !ok {
		return
	}
	read, most := 0, 0
	for _, f := range Formats() {
		n := 0
		for _, line := range lines {
			if f.Parse(line, new(Record)) == nil {
				n++
			}
		}
		if most = max(most, n); f.Name() == detected.Name() {
			read = n
		}
	}
	require.Positive(t, read)
}

func checkLine(t *testing.T, format Format, line []byte) {
	t.Helper()
	var r Record
	if format.Parse(line, &r) != nil {
		return
	}
	require.LessOrEqual(t, int64(r.Duration), maxDuration)
	require.GreaterOrEqual(t, r.Stamp, int64(0))
	require.GreaterOrEqual(t, r.At, -maxDuration)
	require.Less(t, time.Unix(0, r.At).Year(), lastYear+1)
	require.True(t, r.Status == 0 || r.Status >= 100 && r.Status <= 999)
	require.True(t, r.Cost >= 0 && r.Cost <= maxCost)
	fields := [][]byte{r.Method, r.Path, r.Client, r.Resource, r.Key}
	switch f := format.(type) {
	case *text:
		require.Len(t, f.found, len(f.fields))
		for _, field := range f.fields {
			value, ok := r.Column(field.name)
			require.True(t, ok)
			fields = append(fields, value)
		}
	case *object:
		fields = nil // they are decoded
	}
	for _, field := range fields {
		require.True(t, bytes.Contains(line, field), "%q", field)
	}
	_, _ = r.Column("request.host")
}

func fuzzFormat(f *testing.F, name string, lines ...string) {
	f.Helper()
	format, ok := Named(name)
	require.True(f, ok)
	all := ""
	for _, line := range lines {
		require.NoError(f, format.Parse([]byte(line), new(Record)), line)
		f.Add([]byte(line))
		f.Add([]byte(line[:len(line)/2]))
		f.Add([]byte(line + " " + line))
		all += line + "\n"
	}
	f.Add([]byte(all))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, text []byte) { checkLines(t, format, text) })
}

func FuzzFormat_ALB(f *testing.F) { fuzzFormat(f, "alb", albLine) }

func FuzzFormat_Envoy(f *testing.F) {
	fuzzFormat(f, "envoy", `[2016-04-15T20:17:00.310Z] "POST /a HTTP/2" 503 RL,UO 154 0 226 - "203.0.113.9, 10.0.35.28" "x" "y" "z" "-"`)
}

func FuzzFormat_Caddy(f *testing.F) {
	fuzzFormat(f, "caddy", `{"ts":1646861401.5241024,"msg":"handled request","request":{"uri":"/","remote_ip":"::1","method":"GET"},"duration":1e-7,"status":0}`)
}

func FuzzFormat_Traefik(f *testing.F) {
	fuzzFormat(f, "traefik", `{"StartUTC":"2024-01-02T03:04:05Z","Duration":1,"RequestMethod":"GET","RequestPath":"/","ClientAddr":"[::1]:5"}`)
}

func FuzzFormat_TraefikCLF(f *testing.F) {
	fuzzFormat(f, "traefik-clf", agents+` 17 "web@docker" "http://x" 3ms`)
}

func FuzzFormat_Leapgate(f *testing.F) {
	fuzzFormat(f, "leapgate", `{"at":"2024-05-20T00:00:00.5Z","resource":"GET /a\u0020{id}","key":"k","cost":3,"nanos":5,"status":429,"refused":"r"}`)
}

func FuzzFormat_JSON(f *testing.F) {
	fuzzFormat(f, "json", `{"time_iso8601":"2024-05-20T02:00:18+02:00","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1","status":"200","request_time":"0.250"}`,
		`{"time":"[20/May/2024:02:00:18 +0200]","remoteIP":"192.0.2.1","request":"/a","method":"GET","status":"-"}`)
}

func FuzzFormat_Nginx(f *testing.F) { fuzzFormat(f, "nginx", agents+" 3.500") }

func FuzzFormat_IngressNginx(f *testing.F) {
	fuzzFormat(f, "ingress-nginx", agents+` 451 1.250 [shop-80] [] 10.0.0.7:8080 17 1.248 200 c0ffee`)
}

func FuzzFormat_VhostCombined(f *testing.F) {
	fuzzFormat(f, "vhost_combined", "example.com:80 "+agents)
}

func FuzzFormat_Combined(f *testing.F) {
	fuzzFormat(f, "combined", agents, `2001:db8::1 - - [29/Feb/2024:23:59:59 -0130] "\x16\x03 \" HTTP/1.1" 000 - "-" "\\"`)
}

func FuzzFormat_Common(f *testing.F) {
	fuzzFormat(f, "common", `1.2.3.4 - - [20/May/2024:02:00:18 +0000] "CONNECT a:443 HTTP/1.1" 200 598`)
}

// Whatever a template and a line are.
func FuzzFormat_OfOnesOwn(f *testing.F) {
	f.Add(`$msec|$remote_addr|$request_method $request_uri|$status|$request_time|$tenant`, []byte(`1716163218.250|192.0.2.1|GET /a?b|200|0.250|acme rest`))
	f.Add(`log_format x '[$start_time] "$request" ' "${micros}us $cost";`, []byte(`[20/May/2024:02:00:18 +0000] "GET / HTTP/1.1" 17us 5`))
	f.Add(`json:end=a.b,uri=c,millis=d,cost=e,key=f`, []byte(`{"a":{"b":1716163218250},"c":"/x","d":"1e3","e":2,"f":"\u0000"}`))
	f.Add(`json:start=$a,dropped=b,uri=c`, []byte(`{"$a":5,"b":3}`))
	f.Fuzz(func(t *testing.T, description string, line []byte) {
		format, err := ParseFormat(description)
		if err == nil {
			checkLine(t, format, line)
		}
	})
}

// Every file is an error or requests in the order of their arrival, the same each time.
func FuzzOpen(f *testing.F) {
	for _, text := range []string{
		"", combined(1, "a", "/") + combined(0, "b", "/x/1"), slow(10, "a", 5) + "\x00\n" + slow(1000, "b", 900) + slow(3, "", 0.5),
		albLine, `{"at":"2024-05-20T00:00:00Z","resource":"x"}`, "\x1f\x8b", combined(1, "::ffff:1.2.3.4", "//{}/../%00"),
		combined(9, "a", "/") + combined(8, "a", "/") + combined(7, "a", "/") + combined(7, "a", "/") + combined(8, "a", "/"),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		log, err := Open([]string{Stdin}, Options{Stdin: bytes.NewReader(data)})
		if err != nil {
			return
		}
		first := all(t, log)
		require.Len(t, first, log.Seen().Requests)
		require.Equal(t, first, all(t, log))
		for _, r := range first {
			require.LessOrEqual(t, len(r.Resource), rule.MaxNameLength)
			require.LessOrEqual(t, len(r.Key), limit.MaxKeyLength)
		}
	})
}
