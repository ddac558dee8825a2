// Command accuracy goes through real traffic and prints how often each limiter of Leapgate,
// and a fixed window, decides otherwise than an exact log would, and how much the fullest
// true window holds, at limits from tight to loose.
//
//	go run ./accuracy [folder]
//
// The folder, ../../shared/data by default, has azure_llm_code.csv (requests to a language
// model: Azure/AzurePublicDataset, CC-BY 4.0; all are one key) and access.log (a web
// server's log in the combined format; each client is a key). Those that are not there are
// left out.
//
// A decision is wrong if it differs from the exact count of what that very limiter had
// admitted in the window that ends with the request.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	folder := "../../shared/data"
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	if err := run(folder, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

func run(folder string, out io.Writer) error {
	all, err := read(folder)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintf(out, "neither azure_llm_code.csv nor access.log is in %s: nothing to do\n", folder)
		return nil
	}
	fmt.Fprintf(out, "| traffic | limit | limiter | refused | wrongly admitted | wrongly refused | fullest true window |\n|---|---:|---|---:|---:|---:|---:|\n")
	for _, t := range all {
		for _, most := range t.limits {
			for _, a := range algorithms {
				v, err := judge(t, most, a)
				if err != nil {
					return err
				}
				share := func(n int) float64 { return 100 * float64(n) / float64(v.requests) }
				fmt.Fprintf(out, "| %s | %d in %v | %s | %.2f %% | %.3f %% | %.3f %% | %d (%+.0f %%) |\n", t.name, most, t.window, a.name,
					share(v.refused), share(v.tooKind), share(v.tooHard), v.fullest, 100*float64(v.fullest-most)/float64(most))
			}
		}
	}
	return nil
}
