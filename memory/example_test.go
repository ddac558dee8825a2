package memory_test

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/leapgate-go/leapgate/memory"
)

func ExampleStart() {
	sampler, err := memory.Start(memory.Config{Every: time.Second})
	if err != nil {
		panic(err)
	}
	used, known := sampler.Used()
	fmt.Println(used > 0, known)

	if err := sampler.Close(); err != nil {
		panic(err)
	}
	fmt.Println(sampler.Used())
	// Output:
	// true true
	// 0 false
}

func ExampleSampler_Source() {
	sampler, err := memory.Start(memory.Config{})
	if err != nil {
		panic(err)
	}
	defer sampler.Close()
	used, known := sampler.Used()
	slog.Info("memory is watched", "source", sampler.Source(), "used", used)
	fmt.Println(known == (sampler.Source() != ""))
	// Output: true
}
