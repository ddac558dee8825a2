package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What must hold on any traffic, tried on the real one.
func TestJudge_RealTraffic(t *testing.T) {
	all, err := read("../../../shared/data")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Skip("../shared/data is not there")
	}
	for _, traffic := range all {
		for _, most := range traffic.limits {
			of := make(map[string]verdict)
			for _, a := range algorithms {
				if of[a.name], err = judge(traffic, most, a); err != nil {
					t.Fatal(err)
				}
			}
			if v := of["limit.NewLog"]; v.tooKind+v.tooHard > 0 || v.fullest > most {
				t.Errorf("%s, %d: the exact log is wrong: %+v", traffic.name, most, v)
			}
			if v := of["limit.NewBucketed of 10, strict"]; v.tooKind > 0 || v.fullest > most {
				t.Errorf("%s, %d: the strict limiter admits too many: %+v", traffic.name, most, v)
			}
			if v := of["limit.NewCounter"]; v.fullest >= 2*most {
				t.Errorf("%s, %d: the counter admits twice the limit: %+v", traffic.name, most, v)
			}
		}
	}
}

func TestRead(t *testing.T) {
	folder := t.TempDir()
	var none strings.Builder
	if err := run(folder, &none); err != nil || !strings.Contains(none.String(), "nothing to do") {
		t.Errorf("%q, %v", none.String(), err)
	}
	for name, text := range map[string]string{
		"azure_llm_code.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:02.5,1,1\n",
		"access.log":         "a - - [20/May/2024:00:00:18 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\"\nnonsense\nb - - [what] \"\"\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := read(folder)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d, %v", len(all), err)
	}
	if r := all[0].requests; len(r) != 2 || r[0].at%1e9 != 500_000_000 || r[1].key != "all" {
		t.Errorf("%+v", r)
	}
	if r := all[2].requests; len(r) != 1 || r[0].key != "a" {
		t.Errorf("%+v", r)
	}
}
