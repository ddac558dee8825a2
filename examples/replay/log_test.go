package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const goodLine = `192.0.2.1 - - [20/May/2024:02:00:18 +0200] "GET /api/orders?page=2 HTTP/1.1" 200 598 "-" "curl/8.5.0"`

func TestParseLine(t *testing.T) {
	at := time.Date(2024, 5, 20, 0, 0, 18, 0, time.UTC)
	for _, test := range []struct {
		name, line string
		want       request
		err        error
	}{
		{"combined", goodLine, request{at, "/api/orders"}, nil},
		{"more at the end", goodLine + ` "192.0.2.7" 0.003`, request{at, "/api/orders"}, nil},
		{"no size", strings.Replace(goodLine, "598", "-", 1), request{at, "/api/orders"}, nil},
		{"space in the user", strings.Replace(goodLine, "- -", "- Ann Lee", 1), request{at, "/api/orders"}, nil},
		{"escaped quote", strings.Replace(goodLine, "curl", `\"curl\\`, 1), request{at, "/api/orders"}, nil},
		{"no HTTP", strings.Replace(goodLine, "GET /api/orders?page=2 HTTP/1.1", `\x16\x03\x01`, 1), request{at, ""}, nil},
		{"empty request", strings.Replace(goodLine, "GET /api/orders?page=2 HTTP/1.1", "", 1), request{at, ""}, nil},

		{"empty", "", request{}, errHead},
		{"agent on a line of its own", ` "curl/8.5.0"`, request{}, errHead},
		{"no user", "192.0.2.1 - [20/May/2024:02:00:18 +0200]", request{}, errHead},
		{"no time", strings.Replace(goodLine, "20/May", "31/June", 1), request{}, errTime},
		{"time without an end", strings.Replace(goodLine, "]", "", 1), request{}, errTime},
		{"time that nanoseconds cannot tell", strings.Replace(goodLine, "2024", "9999", 1), request{}, errTime},
		{"time only", goodLine[:43], request{}, errRequest},
		{"request without an end", goodLine[:70], request{}, errRequest},
		{"ends in a backslash", goodLine[:70] + `\`, request{}, errRequest},
		{"no status", strings.Replace(goodLine, " 200", "", 1), request{}, errStatus},
		{"bad size", strings.Replace(goodLine, "598", "-598", 1), request{}, errStatus},
		{"nothing after the size", strings.SplitAfter(goodLine, "598")[0], request{}, errAgent},
		{"no user agent", strings.Replace(goodLine, ` "curl/8.5.0"`, "", 1), request{}, errAgent},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseLine(test.line)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("%s\ngot  %v, %v\nwant %v, %v", test.line, got, err, test.want, test.err)
			}
		})
	}
}

func TestReadLog(t *testing.T) {
	at := func(second string) string { return strings.Replace(goodLine, ":18 ", ":"+second+" ", 1) }
	log, err := readLog(strings.NewReader(strings.Join([]string{
		at("30"), at("20"), "", "garbage", at("20") + "\r", strings.Replace(at("20"), "orders", "late", 1), at("10"),
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if log.lines != 7 || log.malformed != 2 || len(log.samples) != 2 || log.backwards != 2 {
		t.Errorf("%d lines, %d malformed, %d of them kept, back %d times; want 7, 2, 2, 2",
			log.lines, log.malformed, len(log.samples), log.backwards)
	}
	if sample := log.samples[1]; sample.number != 4 || sample.text != "garbage" || !errors.Is(sample.err, errHead) {
		t.Errorf("the second malformed line is %v; want line 4, its text and why", sample)
	}
	var order []string
	for _, q := range log.requests {
		order = append(order, q.at.Format("05")+q.path)
	}
	const want = "10/api/orders 20/api/orders 20/api/orders 20/api/late 30/api/orders"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("requests in the order %s; want %s", got, want)
	}
}

func TestReadLog_LongLines(t *testing.T) {
	fits := goodLine + strings.Repeat("x", maxLine-len(goodLine)-1)
	long := goodLine + strings.Repeat("x", 3*maxLine)
	log, err := readLog(strings.NewReader(fits + "\n" + long + "\n" + goodLine + "\n" + long))
	if err != nil {
		t.Fatal(err)
	}
	if log.lines != 4 || len(log.requests) != 2 || log.malformed != 2 {
		t.Errorf("%d lines, %d requests, %d malformed; want 4, 2, 2", log.lines, len(log.requests), log.malformed)
	}
	for _, sample := range log.samples {
		if !errors.Is(sample.err, errLong) || len(sample.text) > maxSample {
			t.Errorf("line %d: %v, %d bytes kept; want %v, at most %d", sample.number, sample.err, len(sample.text), errLong, maxSample)
		}
	}
}

func TestReadLog_CannotRead(t *testing.T) {
	broken := errors.New("disk gone")
	for _, before := range []string{"", goodLine, strings.Repeat("x", 2*maxLine)} {
		_, err := readLog(io.MultiReader(strings.NewReader(before), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: error %v; want %v", len(before), err, broken)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add(goodLine)
	f.Add(goodLine + ` "192.0.2.7" 0.003`)
	f.Add(` "curl/8.5.0"`)
	f.Add(`- - - [20/May/2024:02:00:18 +0200] "\x16\x03\"" 400 - "" "`)
	f.Add(`::1 - a [b] [01/Jan/0001:00:00:00 -2400] "`)
	f.Fuzz(func(t *testing.T, line string) {
		q, err := parseLine(line)
		if err != nil {
			if q != (request{}) {
				t.Errorf("%q: an error and a request, %v", line, q)
			}
			return
		}
		if !time.Unix(0, q.at.UnixNano()).Equal(q.at) {
			t.Errorf("%q: nanoseconds cannot tell %v", line, q.at)
		}
		if strings.ContainsAny(q.path, "? ") || !strings.Contains(line, q.path) {
			t.Errorf("%q: path %q", line, q.path)
		}
	})
}
