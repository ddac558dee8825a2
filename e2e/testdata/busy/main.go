// Busy is a program that does nothing, or as much as it can, as it is told on its standard input. Its
// dashboard shows the load.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/load"
)

func main() {
	orders := bufio.NewScanner(os.Stdin)
	orders.Scan() // when it is in its cgroup
	sampler, err := load.Start(load.Config{})
	if err != nil {
		log.Fatal(err)
	}
	gate := leapgate.Must(leapgate.Config{Load: sampler})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(listener, dashboard.Handler(gate, dashboard.Config{}))) }()
	fmt.Printf("http://%s/\n", listener.Addr())

	var burns atomic.Bool
	for range 2 {
		go burn(&burns)
	}
	for orders.Scan() {
		burns.Store(orders.Text() == "burn")
	}
}

// burn takes a processor for itself while it is to.
func burn(burns *atomic.Bool) {
	for {
		for burns.Load() {
		}
		time.Sleep(time.Millisecond)
	}
}
