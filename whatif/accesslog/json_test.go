package accesslog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The times of Apache are those of arrivals, and are written in ways of its own.
func TestJSON_OfApache(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"time":"[20/May/2024:02:00:18 +0200]","remoteIP":"192.0.2.1","host":"example.com","request":"/a","query":"?b","method":"GET","status":"200"}`,
		`{"time":"2024-05-20T00:00:18+0000","client_ip":"192.0.2.1","request":"GET /a?b HTTP/1.1","status":200}`,
	} {
		r := read(t, "json", line)
		require.Equal(t, "2024-05-20T00:00:18Z GET /a 192.0.2.1", fmt.Sprintf("%s %s %s %s", at(r), r.Method, r.Path, r.Client))
	}
	f, err := ParseFormat("json:start=time,micros=took,request=request")
	require.NoError(t, err)
	require.Empty(t, f.Note())
	var r Record
	require.NoError(t, f.Parse([]byte(`{"time":"[20/May/2024:02:00:18 +0200]","took":"1500000","request":"GET /a HTTP/1.1"}`), &r))
	require.Equal(t, "2024-05-20T00:00:18Z 1.5s", at(r)+" "+r.Duration.String())
}

// A duration is in some unit: where only the program that wrote it knows which, it is not used.
func TestJSON_DurationsWithoutAUnit(t *testing.T) {
	t.Parallel()
	const line = `{"timestamp":%s,"method":"GET","path":"/a","status":200,%s}`
	for _, test := range []struct {
		member string
		took   time.Duration
		note   bool
	}{
		{`"request_time":"0.250"`, 250 * time.Millisecond, false},
		{`"request_time":0.250`, 250 * time.Millisecond, false},
		{`"request_time":250`, -1, true},
		{`"request_time":"2024-05-20T00:00:18Z"`, -1, true},
		{`"duration":35`, -1, true},
		{`"duration":58.33`, -1, true},
		{`"latency":0.012`, -1, true},
		{`"duration_ms":35.5`, 35500 * time.Microsecond, false},
		{`"size":35`, -1, false},
	} {
		f, ok := Detect([][]byte{fmt.Appendf(nil, line, "1716163218", test.member)})
		require.True(t, ok)
		require.Equal(t, "json", f.Name())
		require.Empty(t, f.Note())
		var r Record
		require.NoError(t, f.Parse(fmt.Appendf(nil, line, `"2024-05-20T00:00:18Z"`, test.member), &r))
		require.Equal(t, test.took, r.Duration, test.member)
		require.Equal(t, test.note, strings.Contains(f.Note(), "its unit is unknown"), test.member)
	}
	for format, want := range map[string]string{
		"json:end=timestamp,uri=path,millis=duration": "35ms", "json:end=timestamp,uri=path,seconds=duration": "35s",
		"json:end=timestamp,uri=path,micros=duration": "35µs", "json:end=timestamp,uri=path,nanos=duration": "35ns",
	} {
		f, err := ParseFormat(format)
		require.NoError(t, err)
		require.Empty(t, f.Note())
		var r Record
		require.NoError(t, f.Parse(fmt.Appendf(nil, line, "1716163218000", `"duration":35`), &r))
		require.Equal(t, want, r.Duration.String())
		require.Equal(t, time.Date(2024, 5, 20, 0, 0, 18, 0, time.UTC).UnixNano()-int64(r.Duration), r.At)
	}
}

// Lines of a program's log that have a time and perhaps a path are no requests.
func TestJSON_LinesThatAreNoRequests(t *testing.T) {
	t.Parallel()
	f, _ := Named("json")
	for _, line := range []string{
		`{"time":"2024-05-20T00:00:18Z","level":"INFO","msg":"started"}`,
		`{"time":"2024-05-20T00:00:18Z","msg":"read","path":"/etc/app.conf"}`,
		`{"time":"2024-05-20T00:00:18Z","request":{"id":7}}`,
		`{"time":"2024-05-20T00:00:18Z","request":null,"uri":"","method":"GET"}`,
		`{}`,
	} {
		require.Equal(t, ErrNoRequest, f.Parse([]byte(line), new(Record)), line)
		_, ok := Detect([][]byte{[]byte(line)})
		require.False(t, ok, line)
	}
	own, err := ParseFormat("json:end=time,uri=target")
	require.NoError(t, err)
	require.Equal(t, ErrNoRequest, own.Parse([]byte(`{"time":"2024-05-20T00:00:18Z","msg":"started"}`), new(Record)))
	require.NoError(t, own.Parse([]byte(`{"time":"2024-05-20T00:00:18Z","target":"/a"}`), new(Record)))
	require.Equal(t, NoTime, own.Parse([]byte(`{"time":"soon","target":"/a"}`), new(Record)))

	log := mustOpen(t, Options{}, logFile(t, `{"time":"2024-05-20T00:00:18Z","request":"GET / HTTP/1.1","status":200}`+"\n"+`{"time":"2024-05-20T00:00:18Z","msg":"x"}`+"\n"))
	require.Equal(t, []int{1, 1, 0}, []int{log.Seen().Requests, log.Seen().Skipped, log.Seen().Unreadable})
}

func TestCosts_AreRead(t *testing.T) {
	t.Parallel()
	f, _ := Named("leapgate")
	var r Record
	require.NoError(t, f.Parse([]byte(`{"at":"2024-05-20T00:00:00Z","resource":"x","cost":400}`), &r))
	require.EqualValues(t, 400, r.Cost)
	for _, cost := range []string{`"much"`, "-1", "1e30"} {
		require.Equal(t, NoCost, f.Parse([]byte(`{"at":"2024-05-20T00:00:00Z","resource":"x","cost":`+cost+`}`), &r), cost)
	}
	own, err := ParseFormat("json:end=t,uri=u,cost=usage.tokens")
	require.NoError(t, err)
	require.NoError(t, own.Parse([]byte(`{"t":"2024-05-20T00:00:00Z","u":"/x","usage":{"tokens":"17"}}`), &r))
	require.EqualValues(t, 17, r.Cost)
	template, err := ParseFormat(`$msec $request_uri $cost`)
	require.NoError(t, err)
	for cost, want := range map[string]int64{"17": 17, "-": 0} {
		require.NoError(t, template.Parse([]byte("1716163218 /a "+cost), &r))
		require.Equal(t, want, r.Cost)
	}
	log := mustOpen(t, Options{Format: template}, logFile(t, "1716163218 /a 17\n"))
	require.EqualValues(t, 17, all(t, log)[0].Cost)
}

func TestJSON_MembersAreFoundByTheirPaths(t *testing.T) {
	t.Parallel()
	var o object
	require.True(t, o.decode([]byte(`{"a":{"b":{"c":1716163218250000000},"b.c":2},"a.b":3,"d":["x",{"a":4}],"e":null,"\u0066":"\u0067\n","h":true} `)))
	for path, want := range map[string]string{"a.b": "3", "a.b.c": "2", "f": "g\n", "d": "x", "h": "true"} {
		value, ok := o.column(path)
		require.True(t, ok, path)
		require.Equal(t, want, string(value), path)
	}
	for _, path := range []string{"b", "d.a", "a", "e", "", "a.", ".", "h.x", "z"} {
		_, ok := o.column(path)
		require.False(t, ok, path)
	}
	for _, line := range []string{"", "{", "[]", "1", "null", `{"a":1}}`, `{"a":1} x`, `{"a":1 "b":2}`} {
		require.False(t, o.decode([]byte(line)), line)
	}
}

// With escape=default, nginx writes lines that are not quite JSON.
func TestJSON_OfNginxWithEscapeDefault(t *testing.T) {
	t.Parallel()
	r := read(t, "json", `{"time":"2024-05-20T00:00:18Z","request":"GET /a\x22b HTTP/1.1","status":200}`)
	require.Equal(t, `/a"b`, string(r.Path))
}
