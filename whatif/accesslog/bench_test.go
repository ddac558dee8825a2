package accesslog

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// benchmarkLog is a log of lines in Combined, each of another client.
func benchmarkLog(b *testing.B, lines int) (name string) {
	b.Helper()
	name = filepath.Join(b.TempDir(), "access.log")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range lines {
		fmt.Fprintf(w, "10.%d.%d.%d - - [20/May/2024:%02d:%02d:%02d +0000] \"GET /api/v1/items/%d/parts HTTP/1.1\" 200 5%d \"-\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\"\n",
			i>>16, i>>8&255, i&255, i/100/3600, i/100/60%60, i/100%60, i*7919%100_000, i%1000)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return name
}

const benchmarkLines = 100_000

// BenchmarkLog_Floor is what it takes to read a log and to split it into lines, twice.
func BenchmarkLog_Floor(b *testing.B) {
	name := benchmarkLog(b, benchmarkLines)
	for b.Loop() {
		for range 2 {
			f, err := os.Open(name)
			if err != nil {
				b.Fatal(err)
			}
			for in := newLines(f, 0, buffer); ; {
				if _, _, err := in.next(); err != nil {
					break
				}
			}
			_ = f.Close()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchmarkLines, "ns/line")
}

func BenchmarkLog_OpenAndRead(b *testing.B) {
	name := benchmarkLog(b, benchmarkLines)
	b.ReportAllocs()
	for b.Loop() {
		log, err := Open([]string{name}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range log.Requests {
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchmarkLines, "ns/line")
}

func BenchmarkParse_Caddy(b *testing.B) {
	line := []byte(`{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1",` +
		`"remote_port":"41342","client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a?b","headers":{"User-Agent":["curl/7.82.0"],` +
		`"Accept":["*/*"],"Accept-Encoding":["gzip, deflate, br"]},"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2","server_name":"example.com"}},` +
		`"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Encoding":["gzip"]}}`)
	f, _ := Named("caddy")
	var r Record
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Parse(line, &r); err != nil {
			b.Fatal(err)
		}
	}
}
