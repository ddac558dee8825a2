package whatif_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/param"
	"github.com/leapgate-go/leapgate/rule"
	"github.com/leapgate-go/leapgate/whatif"
	"github.com/leapgate-go/leapgate/whatif/accesslog"
)

const benchLines = 1_000_000

// benchLog is a day of requests in the combined format, of so many clients for 20 resources.
func benchLog(clients int) []byte {
	var log bytes.Buffer
	rng := rand.New(rand.NewPCG(1, 0))
	for i := range benchLines {
		client := i % clients
		if clients < benchLines {
			client = int(rng.ExpFloat64()*float64(clients)/10) % clients
		}
		at := midnight.Add(time.Duration(i) * 86400 * time.Microsecond)
		fmt.Fprintf(&log, "10.%d.%d.%d - - [%s] \"GET /items/%d?page=2 HTTP/1.1\" 200 5983 \"-\" \"Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0\"\n",
			client>>16, client>>8&255, client&255, at.Format("02/Jan/2006:15:04:05 -0700"), rng.IntN(20))
	}
	return log.Bytes()
}

// parsed is the requests of a log that is in memory.
func parsed(log []byte) whatif.Source {
	names := make(map[string]string)
	return func(yield func(whatif.Request, error) bool) {
		format, _ := accesslog.Named("combined")
		lines := bufio.NewScanner(bytes.NewReader(log))
		var r accesslog.Record
		for lines.Scan() {
			if err := format.Parse(lines.Bytes(), &r); err != nil {
				yield(whatif.Request{}, err)
				return
			}
			name, ok := names[string(r.Path)]
			if !ok {
				name = string(r.Method) + " " + string(r.Path)
				names[string(r.Path)] = name
			}
			if !yield(whatif.Request{At: time.Unix(0, r.At), Resource: name, Key: string(r.Client), Status: r.Status}, nil) {
				return
			}
		}
	}
}

// tenRules are for nine of the resources, and for each client.
func tenRules() whatif.Config {
	cfg := whatif.Config{Resolution: time.Second, OnePlacement: true, Limits: perKey(10, time.Minute)}
	for i := range 9 {
		cfg.Rules.Flow = append(cfg.Rules.Flow, flow.Rule{
			Resource: fmt.Sprint("GET /items/", i), Threshold: float64(35 + i), Interval: time.Minute, Strict: i%2 == 0,
		})
	}
	return cfg
}

// elevenRules are one more, for each of all resources.
func elevenRules() whatif.Config {
	cfg := tenRules()
	cfg.Rules.Flow = append(cfg.Rules.Flow, flow.Rule{Match: rule.All, Threshold: 2500, Interval: time.Hour})
	return cfg
}

func BenchmarkRun_TenRulesAndTheCurve(b *testing.B) {
	log := benchLog(10_000)
	b.Run("floor: read and split", func(b *testing.B) {
		b.SetBytes(int64(len(log)))
		for b.Loop() {
			fields := 0
			lines := bufio.NewScanner(bytes.NewReader(log))
			for lines.Scan() {
				fields += len(bytes.Fields(lines.Bytes()))
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(log)))
		for b.Loop() {
			for range parsed(log) {
			}
		}
	})
	for name, cfg := range map[string]func() whatif.Config{"ten rules": tenRules, "and one for all": elevenRules} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				if _, err := whatif.Run(context.Background(), cfg(), parsed(log)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRun_MillionClients(b *testing.B) {
	log := benchLog(benchLines)
	for n := range 3 {
		b.Run(fmt.Sprint(n, " rules per client"), func(b *testing.B) {
			for b.Loop() {
				cfg := whatif.Config{Resolution: time.Second, OnePlacement: true, Windows: []time.Duration{time.Minute}}
				for i := range n {
					cfg.Rules.Param = append(cfg.Rules.Param, param.Rule{
						ID: fmt.Sprint(i), Resource: "everything", Arg: "client", Threshold: 10, Interval: 24 * time.Hour,
					})
				}
				before := heap()
				var most uint64
				source, seen := parsed(log), 0
				_, err := whatif.Run(context.Background(), cfg, func(yield func(whatif.Request, error) bool) {
					for r, err := range source {
						r.Resource = "everything"
						if !yield(r, err) {
							return
						}
						if seen++; seen == benchLines {
							most = heap()
						}
					}
				})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(most-before)/1e6, "MB")
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
