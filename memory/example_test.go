package memory_test

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/leapgate-go/leapgate/memory"
)

func ExampleStart() {
	sampler, err := memory.Start(memory.Config{
		Every:  time.Second,
		Reader: func() (int64, error) { return 600 << 20, nil }, // without it: that of the container
	})
	if err != nil {
		panic(err)
	}
	used, known := sampler.Used()
	fmt.Println(used>>20, "MiB", known)

	if err := sampler.Close(); err != nil {
		panic(err)
	}
	fmt.Println(sampler.Used())
	// Output:
	// 600 MiB true
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
