//go:build unix

// Command replay prints what leapgate replay takes for a million lines: the time of the processor
// as seconds and as a ratio to its floor, which is to read the lines and to split them, and the memory of
// the process at its most.
//
// Both are processes of their own with one thread of Go, run by turns. Each turn yields one ratio,
// and the median is printed.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

func main() {
	turns := flag.Int("turns", 5, "how many ratios to take of each case")
	lines := flag.Int("lines", 1_000_000, "lines of the logs")
	floor := flag.String("floor", "", "read and split a `file`, and nothing else")
	flag.Parse()
	var err error
	if *floor != "" {
		err = readAndSplit(*floor)
	} else {
		err = measure(*turns, *lines)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

func readAndSplit(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	fields := 0
	for lines.Scan() {
		fields += len(bytes.Fields(lines.Bytes()))
	}
	fmt.Println(fields)
	return lines.Err()
}

func measure(turns, lines int) error {
	folder, err := os.MkdirTemp("", "leapgate-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // nothing is left that matters
	program := filepath.Join(folder, "leapgate")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/leapgate-go/leapgate/cmd/leapgate").CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	few, many := filepath.Join(folder, "few.log"), filepath.Join(folder, "many.log")
	rules := filepath.Join(folder, "rules.yaml")
	err = cmp.Or(writeLog(few, lines, 10_000), writeLog(many, lines, lines), os.WriteFile(rules, []byte(tenRules()), 0o600))
	if err != nil {
		return err
	}
	fmt.Print("| | seconds | floor | ratio | MB |\n|---|---:|---:|---:|---:|\n")
	for _, c := range []struct {
		name, log string
		flags     []string
	}{
		{"ten rules and the curve, 7,500 clients", few, []string{"-rules", rules}},
		{"the curve, each line of another client", many, []string{"-window", "24h"}},
		{"and a rule per client", many, []string{"-rule", "/=10/24h,per-key"}},
		{"and another", many, []string{"-rule", "/=10/24h,per-key", "-rule", "/=20/24h,per-key"}},
	} {
		var seconds, floors, ratios, memory []float64
		for range turns {
			floor, _, err := run(os.Args[0], "-floor", c.log)
			if err != nil {
				return err
			}
			took, most, err := run(program, append(append([]string{"replay"}, c.flags...), c.log)...)
			if err != nil {
				return err
			}
			seconds, floors = append(seconds, took.Seconds()), append(floors, floor.Seconds())
			ratios, memory = append(ratios, took.Seconds()/floor.Seconds()), append(memory, float64(most)/1e6)
		}
		fmt.Printf("| %s | %.2f | %.2f | %.1f | %.0f |\n", c.name, median(seconds), median(floors), median(ratios), slices.Max(memory))
	}
	return nil
}

// run runs a program, and returns what it took of the processor and of memory, in bytes.
func run(name string, args ...string) (took time.Duration, most int64, err error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return 0, 0, err
	}
	s := cmd.ProcessState
	return s.UserTime() + s.SystemTime(), int64(s.SysUsage().(*syscall.Rusage).Maxrss) << 10, nil //nolint:unconvert // it has 32 bits on 386
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// writeLog writes a day of requests in the combined format for 20 resources, of up to so many clients; as
// many as lines have one each.
func writeLog(name string, lines, clients int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	rng := rand.New(rand.NewPCG(1, 0))
	midnight := time.Date(2024, 5, 20, 0, 0, 0, 0, time.UTC)
	for i := range lines {
		client := i % clients
		if clients < lines {
			client = int(rng.ExpFloat64()*float64(clients)/10) % clients
		}
		at := midnight.Add(time.Duration(i) * 24 * time.Hour / time.Duration(lines))
		fmt.Fprintf(out, "10.%d.%d.%d - - [%s] \"GET /items/%d?page=2 HTTP/1.1\" 200 5983 \"-\" \"Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0\"\n",
			client>>16, client>>8&255, client&255, at.Format("02/Jan/2006:15:04:05 -0700"), rng.IntN(20))
	}
	return out.Flush()
}

// tenRules are for nine of the resources, and for each client.
func tenRules() string {
	text := "limits:\n  per-client: {limit: 10, window: 1m}\nflow:\n"
	for i := range 9 {
		text += "  - {resource: GET /items/" + strconv.Itoa(i) + ", threshold: " + strconv.Itoa(35+i) + ", interval: 1m, strict: " + strconv.FormatBool(i%2 == 0) + "}\n"
	}
	return text
}
