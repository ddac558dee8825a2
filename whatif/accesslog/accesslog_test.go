package accesslog

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/whatif"
)

// read reads a line in the format that it is told by, which must be named so.
func read(t *testing.T, format, line string) Record {
	t.Helper()
	f, ok := Detect([][]byte{[]byte(line)})
	require.True(t, ok)
	require.Equal(t, format, f.Name())
	var r Record
	require.NoError(t, f.Parse([]byte(line), &r))
	return r
}

func at(r Record) string { return time.Unix(0, r.At).UTC().Format(time.RFC3339Nano) }

func TestCombined_OfApacheTellsWhenRequestsArrive(t *testing.T) {
	t.Parallel()
	r := read(t, "combined", `192.0.2.1 - - [20/May/2024:02:00:18 +0200] "GET /a?x=1 HTTP/1.1" 200 598 "-" "curl/8.0 (\"x\")"`)
	require.Equal(t, "2024-05-20T00:00:18Z", at(r))
	require.Equal(t, "GET /a 200 192.0.2.1", string(r.Method)+" "+string(r.Path)+" "+"200 "+string(r.Client))
	require.Equal(t, 200, r.Status)
	require.Negative(t, r.Duration)
	agent, ok := r.Column("http_user_agent")
	require.True(t, ok)
	require.Equal(t, `curl/8.0 (\"x\")`, string(agent))
	_, ok = r.Column("host")
	require.False(t, ok)
}

func TestNginx_LinesAreWrittenWhenRequestsEnd(t *testing.T) {
	t.Parallel()
	r := read(t, "nginx", `192.0.2.1 - ann [20/May/2024:02:00:18 +0000] "GET /a HTTP/1.1" 200 598 "-" "curl/8.0" 3.500`)
	require.Equal(t, "2024-05-20T02:00:14.5Z", at(r))
	require.Equal(t, 3500*time.Millisecond, r.Duration)
}

func TestCommon_HasNoAgent(t *testing.T) {
	t.Parallel()
	r := read(t, "common", `2001:db8::1 - - [29/Feb/2024:23:59:59 -0130] "GET /a%20b HTTP/1.0" 404 -`)
	require.Equal(t, "2024-03-01T01:29:59Z", at(r))
	require.Equal(t, "2001:db8::1 /a%20b", string(r.Client)+" "+string(r.Path))
}

const albLine = `h2 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 [2001:db8::1]:2817 10.0.0.66:9000 0.086 0.048 0.037 200 200 5 257 ` +
	`"GET https://10.0.2.105:773/a/b?c=1 HTTP/2.0" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:1:targetgroup/t/73e2 ` +
	`"Root=1-58337327-72bd00b0343d75b906739c42" "-" "-" 1 2018-07-02T22:22:48.364000Z "redirect" "https://example.com:80/" "-" "-" "-" "-" "-" TID_1`

func TestALB_HasTheTimeOfArrival(t *testing.T) {
	t.Parallel()
	r := read(t, "alb", albLine)
	require.Equal(t, "2018-07-02T22:22:48.364Z", at(r))
	require.Equal(t, 171*time.Millisecond, r.Duration)
	require.Equal(t, "2001:db8::1 /a/b", string(r.Client)+" "+string(r.Path))

	line := bytes.Replace([]byte(albLine), []byte("0.086 0.048 0.037"), []byte("-1 -1 -1"), 1)
	require.Negative(t, read(t, "alb", string(line)).Duration)
}

func TestEnvoy_SaysWhatItRefused(t *testing.T) {
	t.Parallel()
	const line = `[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 503 RL 154 0 226 - "203.0.113.9, 10.0.35.28" "nsq2http" "cc21d9b0" "locations" "-"`
	r := read(t, "envoy", line)
	require.Equal(t, "2016-04-15T20:17:00.31Z", at(r), "its time is the arrival")
	require.Equal(t, 226*time.Millisecond, r.Duration)
	require.True(t, r.Refused)
	require.Equal(t, "10.0.35.28", string(r.Client), "the address that the proxy saw itself")
	require.False(t, read(t, "envoy", `[2016-04-15T20:17:00.310Z] "GET / HTTP/1.1" 200 - 154 0 226 100 "-" "-" "-" "-" "-"`).Refused)
}

func TestCaddy_LinesAreWrittenWhenRequestsEnd(t *testing.T) {
	t.Parallel()
	const line = `{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1",` +
		`"remote_port":"41342","client_ip":"192.0.2.7","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a\u0062?c"},` +
		`"duration":0.000929675,"size":10900,"status":200}`
	r := read(t, "caddy", line)
	require.Equal(t, "2022-03-09T21:30:01.523172725Z", at(r))
	require.Equal(t, "192.0.2.7 /ab", string(r.Client)+" "+string(r.Path))
	host, ok := r.Column("request.host")
	require.True(t, ok)
	require.Equal(t, "localhost", string(host))

	f, _ := Named("caddy")
	require.Equal(t, ErrNoRequest, f.Parse([]byte(`{"level":"info","ts":1646861401.5,"msg":"serving initial configuration"}`), new(Record)))
}

func TestTraefik_HasTheTimeOfArrival(t *testing.T) {
	t.Parallel()
	r := read(t, "traefik", `{"ClientAddr":"172.19.0.1:47042","ClientHost":"172.19.0.1","DownstreamStatus":200,"Duration":1041000,"RequestMethod":"GET",`+
		`"RequestPath":"/whoami?x","StartUTC":"2024-01-02T03:04:05.123456789Z"}`)
	require.Equal(t, "2024-01-02T03:04:05.123456789Z", at(r))
	require.Equal(t, 1041*time.Microsecond, r.Duration)
}

func TestJSON_OfNginx(t *testing.T) {
	t.Parallel()
	r := read(t, "json", `{"time_iso8601":"2024-05-20T02:00:18+02:00","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1","status":"200","request_time":"0.250"}`)
	require.Equal(t, "2024-05-20T00:00:17.75Z", at(r))
	require.Equal(t, "GET /a", string(r.Method)+" "+string(r.Path))

	f, err := JSON(map[string]string{"start": "t", "uri": "u.path", "micros": "d"})
	require.NoError(t, err)
	require.NoError(t, f.Parse([]byte(`{"t":"20/May/2024:02:00:18 +0000","u":{"path":"/a"},"d":1500}`), &r))
	require.Equal(t, "2024-05-20T02:00:18Z /a 1.5ms", at(r)+" "+string(r.Path)+" "+r.Duration.String())

	_, err = JSON(map[string]string{"when": "t"})
	require.ErrorContains(t, err, `no role "when"; want one of client, cost, dropped, end,`)
}

func TestTemplate_OfOnesOwn(t *testing.T) {
	t.Parallel()
	f, err := Template(`$msec|$remote_addr|$request_method $request_uri|$status|$request_time|$tenant`)
	require.NoError(t, err)
	var r Record
	require.NoError(t, f.Parse([]byte("1716163218.250|192.0.2.1|GET /a?b|200|0.250|acme rest"), &r))
	require.Equal(t, "2024-05-20T00:00:18Z", at(r))
	tenant, _ := r.Column("tenant")
	require.Equal(t, "acme", string(tenant))
	for template, want := range map[string]string{
		`$remote_addr "$request"`: "has no $time_local or $time_iso8601 or $msec or $start_time",
		`$msec`:                   "has no $request or $request_uri",
		`$msec$request`:           "has nothing between $msec and the next field",
		`$msec $ $request`:        "has a $ without a name",
		`$msec $msec`:             "has $msec twice",
		`nothing`:                 "has no fields",
	} {
		_, err := Template(template)
		require.ErrorContains(t, err, want)
	}
}

func TestFaults_NameWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	f, _ := Named("nginx")
	for line, want := range map[string]error{
		``: NoField,
		`192.0.2.1 - - [31/Feb/2024:02:00:18 +0000] "GET /a HTTP/1.1" 200 598 "-" "-" 3.500`: NoTime,
		`192.0.2.1 - - [20/May/2024:24:00:18 +0000] "GET /a HTTP/1.1" 200 598 "-" "-" 3.500`: NoTime,
		`192.0.2.1 - - [20/May/1969:02:00:18 +0000] "GET /a HTTP/1.1" 200 598 "-" "-" 3.500`: NoTime,
		`192.0.2.1 - - [20/May/2024:02:00:18 +0000] "GET /a HTTP/1.1" 2e3 598 "-" "-" 3.500`: NoStatus,
		`192.0.2.1 - - [20/May/2024:02:00:18 +0000] "GET /a HTTP/1.1" 200 598 "-" "-" soon`:  NoDuration,
		`192.0.2.1 - - [20/May/2024:02:00:18 +0000] "GET /a HTTP/1.1" 200 598 "-" "-`:        NoField,
	} {
		require.Equal(t, want, f.Parse([]byte(line), new(Record)), line)
	}
	require.EqualError(t, NoTime, "no time that can be read")
}

// What is nothing like HTTP is a request all the same, without a method and a path.
func TestRequest_OfClientsThatSpeakSomethingElse(t *testing.T) {
	t.Parallel()
	f, _ := Named("common")
	for request, want := range map[string]string{
		`\x16\x03\x01`: " ", `-`: " ", ``: " ", `GET /`: " ", `get / HTTP/1.1`: " ",
		`GET /a b HTTP/1.1`:                   "GET /a b",
		`OPTIONS * HTTP/1.1`:                  "OPTIONS *",
		`CONNECT example.com:443 HTTP/1.1`:    "CONNECT example.com:443",
		`GET http://example.com?a HTTP/1.1`:   "GET /",
		`GET http://example.com/b#c HTTP/1.1`: "GET /b",
		`GET /redirect?to=http://x/ HTTP/1.1`: "GET /redirect",
	} {
		var r Record
		require.NoError(t, f.Parse([]byte(`- - - [20/May/2024:02:00:18 +0000] "`+request+`" 400 0`), &r))
		require.Equal(t, want, string(r.Method)+" "+string(r.Path), request)
		require.Empty(t, r.Client)
	}
}

func TestDecimal_IsExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1646861401.5241024": 1646861401524102400, "0.000929675": 929675, "-1": -1e9, "3.500": 3500000000,
		"1e3": 1e12, "9.5e-07": 950, "0.0000000019": 1, "4102444799": 4102444799e9,
	} {
		ns, ok := decimal([]byte(text), time.Second)
		require.True(t, ok, text)
		require.Equal(t, want, ns, text)
	}
	for _, text := range []string{"", "-", ".5", "1x", "1.x", "99999999999999999999", "1e300", "NaN", "0x1"} {
		_, ok := decimal([]byte(text), time.Second)
		require.False(t, ok, text)
	}
}

func TestRealLog_AllThatIsWholeCanBeRead(t *testing.T) {
	t.Parallel()
	log, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "access.log"))
	if err != nil {
		t.Skip("the log of real traffic is not there")
	}
	lines := bytes.Split(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
	f, ok := Detect(lines[:100])
	require.True(t, ok)
	require.Equal(t, "combined", f.Name())
	read, clients := 0, map[string]bool{}
	for _, line := range lines {
		var r Record
		if f.Parse(line, &r) == nil {
			read++
			clients[string(r.Client)] = true
		}
	}
	require.Equal(t, 10_479, read)
	require.Len(t, clients, 917)
}

func BenchmarkParse_Combined(b *testing.B) {
	line := []byte(`171.177.25.126 - - [20/May/2024:00:00:18 +0000] "GET /erddap/tabledap/allDatasets.csv HTTP/1.1" 200 598326 "-" "python-requests/2.28.1"`)
	f, _ := Named("combined")
	var r Record
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Parse(line, &r); err != nil {
			b.Fatal(err)
		}
	}
}

// The middleware writes what it has decided: the resource and the key are those of the gate.
func TestLeapgate_DecisionsOfTheMiddleware(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	perClient, err := limit.NewCounter(limit.Config{Name: "per-client", Limit: 1, Window: time.Hour})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
	synctest.Test(t, func(t *testing.T) {
		gate := leapgate.Must(leapgate.Config{})
		defer gate.Close()
		h := leaphttp.Handler(mux, leaphttp.Config{
			Gate: gate, Mux: mux, DecisionLog: &log,
			Limits: []leaphttp.Limit{{Limiter: perClient, Key: func(*http.Request) string { return "tenant:5" }}},
		})
		for range 2 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/orders/7", nil))
		}
		synctest.Wait()
	})
	text := log.String() + `{"at":"2000-01-01T00:00:02Z","dropped":7}` + "\n"
	opened := mustOpen(t, Options{}, logFile(t, text))
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of the time in a bubble
	require.Equal(t, []whatif.Request{
		{At: begin, Resource: "GET /orders/{id}", Key: "tenant:5", Duration: time.Second, Status: 200},
		{At: begin.Add(time.Second), Resource: "GET /orders/{id}", Key: "tenant:5", Status: 429, Refused: true},
	}, all(t, opened))
	require.Equal(t, "leapgate", opened.Seen().Files[0].Format)
	require.Equal(t, []int{0, 7}, []int{opened.Seen().Skipped, opened.Seen().Dropped})
	require.Contains(t, strings.Join(opened.Seen().Notes, "\n"), "lines that were lost when the log was written: 7;")
}
