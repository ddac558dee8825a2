package accesslog

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const agents = `192.0.2.1 - - [20/May/2024:02:00:18 +0000] "GET /a HTTP/1.1" 200 598 "-" "curl/8.0"`

// A number at the end of a line is how long the request took only if it is written as nginx does it.
func TestDetect_NumbersAtTheEnd(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]struct {
		format string
		took   time.Duration
		at     string
	}{
		"":                                {"combined", -1, "02:00:18"},
		" 0.000":                          {"nginx", 0, "02:00:18"},
		" 1.500 0.120 .":                  {"nginx", 1500 * time.Millisecond, "02:00:16.5"},
		" 1432 9281":                      {"combined", -1, "02:00:18"}, // Apache's %I %O
		" 250":                            {"combined", -1, "02:00:18"}, // %D, or milliseconds, or seconds
		" 3.42":                           {"combined", -1, "02:00:18"}, // $gzip_ratio
		" 0.25":                           {"combined", -1, "02:00:18"},
		` "203.0.113.7"`:                  {"combined", -1, "02:00:18"}, // $http_x_forwarded_for, the main format of nginx
		` 17 "web@docker" "http://x" 3ms`: {"traefik-clf", 3 * time.Millisecond, "02:00:18"},
		` 9000 "-" "-" 0ms`:               {"traefik-clf", 0, "02:00:18"},
		` 451 1.250 [shop-80] [] 10.0.0.7:8080 17 1.248 200 c0ffee`: {"ingress-nginx", 1250 * time.Millisecond, "02:00:16.75"},
	} {
		r := read(t, want.format, agents+end)
		require.Equal(t, want.took, r.Duration, end)
		require.Equal(t, want.at, time.Unix(0, r.At).UTC().Format("15:04:05.999"), end)
		require.Equal(t, "GET /a 192.0.2.1", fmt.Sprintf("%s %s %s", r.Method, r.Path, r.Client), end)
	}
}

// A counter at the end, such as that of Traefik, moves no arrivals.
func TestOpen_NumbersAtTheEndMoveNoArrivals(t *testing.T) {
	t.Parallel()
	for end, format := range map[string]string{
		` %d "web@docker" "http://x" 3ms`: "traefik-clf", ` 900 %d`: "combined", ` %d`: "combined",
	} {
		var text strings.Builder
		for i := range 2000 {
			text.WriteString(strings.TrimSuffix(combined(i, "a", "/"), "\n") + fmt.Sprintf(end, i+1) + "\n")
		}
		log := mustOpen(t, Options{}, logFile(t, text.String()))
		requests := all(t, log)
		for i, r := range requests {
			require.Equal(t, fmt.Sprint(i, " a"), brief(requests[i : i+1])[0])
			require.LessOrEqual(t, r.Duration, 3*time.Millisecond)
		}
		seen := log.Seen()
		require.Equal(t, format, seen.Files[0].Format)
		require.Equal(t, format == "combined", strings.Contains(strings.Join(seen.Notes, "\n"), "the ends of the lines are not read"))
	}
}

// Where the name of a host stands before the client, it is not the client.
func TestDetect_HostsBeforeTheClient(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"shop.example.com:443 ", "shop.example.com ", "[2001:db8::1]:80 "} {
		r := read(t, "vhost_combined", host+agents)
		require.Equal(t, "192.0.2.1", string(r.Client), host)
		got, ok := r.Column("host")
		require.True(t, ok)
		require.Equal(t, strings.TrimSpace(host), string(got))
	}
	require.Equal(t, "client.example.com", string(read(t, "vhost_combined", "shop.example.com:443 "+strings.Replace(agents, "192.0.2.1", "client.example.com", 1)).Client))
	require.Equal(t, "192.0.2.1", string(read(t, "combined", strings.Replace(agents, "- -", "shop.example.com ann", 1)).Client), "lighttpd has the host second")

	_, ok := Detect([][]byte{[]byte("a b " + agents)})
	require.False(t, ok, "nobody knows what these are")
	f, _ := Named("combined")
	require.NoError(t, f.Parse([]byte(strings.Replace(agents, "- -", "- ann lee", 1)), new(Record)), "in a log that is known, users may have blanks")
}

func TestDetect_NeverChoosesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	lines := [][]byte{}
	for i := range 100 {
		line := agents
		if i%3 == 0 {
			line += " 0.250"
		}
		lines = append(lines, []byte(line))
	}
	f, ok := Detect(lines)
	require.True(t, ok)
	require.Equal(t, "combined", f.Name(), "a third would be lost")
	_, ok = Detect([][]byte{[]byte("once upon a time"), nil})
	require.False(t, ok)
}

func TestStatus_OfRequestsThatGotNone(t *testing.T) {
	t.Parallel()
	f, _ := Named("combined")
	for status, want := range map[string]int{"000": 0, "009": 0, "-": 0, "0": 0, "101": 101, "499": 499, "999": 999} {
		var r Record
		require.NoError(t, f.Parse(bytes.Replace([]byte(agents), []byte(" 200 "), []byte(" "+status+" "), 1), &r), status)
		require.Equal(t, want, r.Status)
	}
	for _, status := range []string{"20", "2000", "2e3", "+20", ""} {
		require.Equal(t, NoStatus, f.Parse(bytes.Replace([]byte(agents), []byte(" 200 "), []byte(" "+status+" "), 1), new(Record)), status)
	}
}

func TestTimes_InAllWaysThatAreKnown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"20/May/2024:02:00:18 +0200":      "2024-05-20T00:00:18Z",
		"[20/May/2024:02:00:18 +0200]":    "2024-05-20T00:00:18Z",
		"2024-05-20T00:00:18Z":            "2024-05-20T00:00:18Z",
		"2024-05-20T00:00:18.25Z":         "2024-05-20T00:00:18.25Z",
		"2024-05-20T02:00:18,250+0200":    "2024-05-20T00:00:18.25Z",
		"2024-05-20 02:00:18+02:00":       "2024-05-20T00:00:18Z",
		"2024-05-19 19:00:18 -0500":       "2024-05-20T00:00:18Z",
		"2024-05-20T00:00:18.1234567891Z": "2024-05-20T00:00:18.123456789Z",
		"1716163218":                      "2024-05-20T00:00:18Z",
		"1716163218.250":                  "2024-05-20T00:00:18.25Z",
		"1716163218250":                   "2024-05-20T00:00:18.25Z",
		"1716163218250.5":                 "2024-05-20T00:00:18.2505Z",
		"1716163218250000":                "2024-05-20T00:00:18.25Z",
		"1716163218250000000":             "2024-05-20T00:00:18.25Z",
		"1.716163218e9":                   "2024-05-20T00:00:18Z",
		"0":                               "1970-01-01T00:00:00Z",
	} {
		ns, ok := parseTime([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, time.Unix(0, ns).UTC().Format(time.RFC3339Nano), text)
	}
	for _, text := range []string{
		"", "-", "[]", "2024-05-20", "2024-05-20T00:00:18", "2024-02-30T00:00:18Z", "2024-05-20T24:00:18Z", "2024-05-20T00:00:18.Z", "2024-05-20T00:00:18+2:00",
		"2024-05-20T00:00:61Z", "20/May/2024:02:00:18", "May 20 02:00:18", "31/Feb/2024:02:00:18 +0000", "17161632182500000000", "-5",
		"1960-05-20T00:00:18Z", "2300-05-20T00:00:18Z", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0000:00:00\x00\x00\x00\x00\x00\x00", "99999999999",
	} {
		_, ok := parseTime([]byte(text))
		require.False(t, ok, text)
	}
}

func TestTemplate_OfApacheWithMicroseconds(t *testing.T) {
	t.Parallel()
	f, err := Template(`$remote_addr $ident $remote_user [$start_time] "$request" $status $bytes "$referer" "$agent" $micros`)
	require.NoError(t, err)
	require.Empty(t, f.Note())
	var r Record
	require.NoError(t, f.Parse([]byte(agents+" 1500000"), &r))
	require.Equal(t, "2024-05-20T02:00:18Z 1.5s", at(r)+" "+r.Duration.String(), "the time is the arrival")
}

func TestTemplate_AsItStandsInTheConfiguration(t *testing.T) {
	t.Parallel()
	const line = `192.0.2.1 - ann [20/May/2024:02:00:18 +0000] "GET /a HTTP/1.1" 200 rt=0.500s its "x"`
	for _, text := range []string{
		`$remote_addr - $remote_user [$time_local] "$request" $status rt=${request_time}s its "$tenant"`,
		"'$remote_addr - $remote_user [$time_local] '\n    '\"$request\" $status rt=${request_time}s its \"$tenant\"'",
		"log_format main '$remote_addr - $remote_user [$time_local] '\n\t\t'\"$request\" $status '\n\t\t'rt=${request_time}s its \"$tenant\"';\n",
		"  log_format\tmain\n escape=default '$remote_addr - $remote_user [$time_local] \"$request\" $status ' \"rt=${request_time}s its \" '\"$tenant\"';",
	} {
		f, err := ParseFormat(text)
		require.NoError(t, err, text)
		var r Record
		require.NoError(t, f.Parse([]byte(line), &r), text)
		tenant, _ := r.Column("tenant")
		require.Equal(t, "2024-05-20T02:00:17.5Z 200 x", fmt.Sprint(at(r), " ", r.Status, " ", string(tenant)), text)
	}
	for text, want := range map[string]string{
		"log_format main $remote_addr [$time_local];": "want pieces in quotes",
		"'$remote_addr [$time_local]":                 "want pieces in quotes",
		"'$remote_addr' x '$time_local'":              "want pieces in quotes",
		"${remote_addr [$time_local] $request":        "has a $ without a name",
	} {
		_, err := ParseFormat(text)
		require.ErrorContains(t, err, want, text)
	}
	f, err := ParseFormat(`$remote_addr [$time_local] $msec "$request" $status`)
	require.NoError(t, err)
	var r Record
	require.NoError(t, f.Parse([]byte(`192.0.2.1 [20/May/2024:00:00:18 +0000] 1716163218.250 "GET /a HTTP/1.1" 200`), &r))
	require.Equal(t, "2024-05-20T00:00:18.25Z", at(r), "the finer of two times")
}

func TestTemplate_OfJSONThatNginxWrites(t *testing.T) {
	t.Parallel()
	f, err := ParseFormat(`log_format json escape=json '{"time":"$time_iso8601","ip":"$remote_addr","req":"$request","took":$request_time,"status":$status}';`)
	require.NoError(t, err)
	var r Record
	require.NoError(t, f.Parse([]byte(`{"time":"2024-05-20T00:00:18+00:00","ip":"192.0.2.1","req":"GET /a HTTP/1.1","took":0.250,"status":200}`), &r))
	require.Equal(t, "2024-05-20T00:00:17.75Z /a 200", fmt.Sprintf("%s %s %d", at(r), r.Path, r.Status))
}
