// Dashboard is a shop whose traffic rises, is blocked and recovers, and a page that shows it
// live.
//
//	go run ./examples/dashboard
//	go run ./examples/dashboard -http 127.0.0.1:9000 -token open-sesame
//	go run ./examples/dashboard -trouble outage
//
// Open the address that it prints. Within a minute every kind of rule has had something to
// do: calls beyond a threshold are blocked, mails are sent one by one, a slow database fills
// its places, and a limit that is only tried counts what it would block. With -token the rules
// can be changed on the page by those who know it; without, they cannot. Ctrl-C ends the
// program.
//
// With -trouble all is calm but for one thing, for 18 s of every 30: the bank is out, orders are overloaded, one
// item is asked for by all, or the rule file is broken. The page must bring it to the top.
//
// Beside the page is /metrics, for Prometheus; deploy/ has a Grafana dashboard and alerts to it.
package main

import (
	"context"
	"crypto/subtle"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/examples/internal/program"
	"github.com/leapgate-go/leapgate/leapprom"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("dashboard", flag.ContinueOnError)
	address := flags.String("http", "127.0.0.1:8080", "the `address` to serve the page on")
	token := flags.String("token", "", "the `text` that lets those who know it change rules; empty: nobody may")
	trouble := flags.String("trouble", "", "what goes `wrong` now and then: "+troubleNames()+"; empty: a bit of everything")
	length := flags.Duration("for", 0, "how `long` to run, such as 10s; 0 is until Ctrl-C")
	if code, ok := program.Parse(flags, args, stderr); !ok {
		return code
	}
	switch {
	case *trouble != "" && !slices.Contains(slices.Collect(maps.Keys(troubles)), *trouble):
		return program.Wrong(flags, "-trouble is %q; want one of %s", *trouble, troubleNames())
	case *length < 0:
		return program.Wrong(flags, "-for is %v; want 0 or more", *length)
	case *length > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *length)
		defer cancel()
	}
	listener, err := net.Listen("tcp", *address)
	if err == nil {
		err = serve(ctx, listener, *token, *trouble, stdout, slog.New(slog.NewTextHandler(stderr, nil)))
	}
	return program.Code(flags, err)
}

func serve(ctx context.Context, listener net.Listener, token, trouble string, out io.Writer, logger *slog.Logger) error {
	shop, err := newShop()
	if err != nil {
		return err
	}
	defer shop.close()
	if trouble != "" {
		shop.customers = calmCustomers(troubles[trouble])
	}
	if trouble == "rulefile" {
		if shop.rules, err = newRuleFile(shop, logger); err != nil {
			return err
		}
	}
	page, err := newPage(shop, token, logger)
	if err != nil {
		return err
	}

	metrics, err := newMetrics(shop)
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler("/leapgate/", http.StatusFound))
	mux.Handle("/leapgate/", page)
	mux.Handle("GET /metrics", metrics)

	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	server.RegisterOnShutdown(func() { _ = page.Close() }) // streams would never end by themselves
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(out, "See it live: http://%s/leapgate/\n", listener.Addr())

	ctx, cancel := context.WithCancel(ctx)
	var inside sync.WaitGroup
	inside.Go(func() { shop.open(ctx) })
	if trouble != "" {
		inside.Go(func() { shop.tell(ctx, trouble, out) })
	}
	select {
	case err = <-served:
	case <-ctx.Done():
		grace, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		err = server.Shutdown(grace)
	}
	cancel()
	inside.Wait()
	return err
}

func newMetrics(shop *shop) (http.Handler, error) {
	cfg := leapprom.Config{Gate: "shop", Limiters: []leapprom.Limiter{shop.perAddress, shop.logins}}
	if shop.rules != nil {
		cfg.RuleSources = []leapprom.RuleSource{shop.rules.watcher}
	}
	collector, err := leapprom.New(shop.gate, cfg)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

func newPage(shop *shop, token string, logger *slog.Logger) (*dashboard.Dashboard, error) {
	cfg := dashboard.Config{
		Title:       "Shop",
		Limiters:    []dashboard.Limiter{shop.perAddress, shop.logins},
		Logger:      logger,
		KeepHistory: true,
	}
	if shop.rules != nil {
		cfg.RuleSources = []dashboard.RuleSource{shop.rules.watcher}
	}
	if token != "" {
		if shop.rules != nil {
			cfg.RuleSources, cfg.RuleKeepers = nil, []dashboard.RuleKeeper{shop.rules.watcher}
		}
		cfg.Authorize = func(r *http.Request) (who string, err error) {
			given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
				return "", dashboard.Challenge("Bearer")
			}
			return "operator", nil
		}
	}
	return dashboard.New(shop.gate, cfg)
}
