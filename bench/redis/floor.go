package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/leapgate-go/leapgate/internal/redistest"
)

// floors has redis-benchmark send what a limiter sent last, again and again.
func floors(out io.Writer, p plan, server *redistest.Server, benchmark redistest.Program, subjects []*subject) error {
	_, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if !s.floor {
			continue
		}
		command, err := s.sent.command(server)
		if err != nil {
			return err
		}
		for _, way := range []struct{ connections, atOnce int }{{1, 1}, {64, 1}, {64, 16}} {
			var rates, ratios []float64
			for range p.turns {
				mine, _, err := s.measure(p, 64)
				if err != nil {
					return err
				}
				// As many as take about as long as a slice.
				requests := max(1000, int(mine*p.slice.Seconds()))
				args := []string{
					"-p", port, "-c", strconv.Itoa(way.connections), "-P", strconv.Itoa(way.atOnce), "-n", strconv.Itoa(requests), "--csv",
				}
				text, err := benchmark.Output(append(append(args, "EVALSHA"), command...)...)
				if err != nil {
					return err
				}
				rate, err := perSecond(text)
				if err != nil {
					return err
				}
				rates = append(rates, rate)
				ratios = append(ratios, rate/mine)
			}
			fmt.Fprintf(out, "| %s | %d | %d | %.0f | **%.2f** |\n", s.name, way.connections, way.atOnce, median(rates), median(ratios))
		}
	}
	return nil
}

// perSecond reads what redis-benchmark prints: a header, and a line.
func perSecond(text string) (float64, error) {
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark says %q: %w", text, err)
	}
	if len(lines) != 2 || len(lines[0]) < 2 || lines[0][1] != "rps" {
		return 0, fmt.Errorf("redis-benchmark says %q", text)
	}
	return strconv.ParseFloat(lines[1][1], 64)
}
