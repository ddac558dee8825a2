package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// clients ask for every endpoint again and again, and do not care for
// Retry-After.
type clients struct {
	http *http.Client
	fail func(error) // told of requests without an answer

	quit    chan struct{}
	running sync.WaitGroup

	first   sync.Once
	refused string // to be read when nobody is running
}

func startClients(client *http.Client, base string, fail func(error)) *clients {
	c := &clients{http: client, fail: fail, quit: make(chan struct{})}
	for _, e := range endpoints {
		for range e.clients {
			c.running.Go(func() { c.drive(base + e.path) })
		}
	}
	return c
}

// stop waits until every client has had its last answer. It returns the first
// refusal that any of them got, empty if none did.
func (c *clients) stop() (refused string) {
	close(c.quit)
	c.running.Wait()
	return c.refused
}

func (c *clients) drive(url string) {
	for {
		select {
		case <-c.quit:
			return
		case <-time.After(rand.N(100 * time.Millisecond)):
		}
		if err := c.ask(url); err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *clients) ask(url string) error {
	answer, err := c.http.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body) // to the end, so that the connection can be used again
	if err != nil {
		return err
	}
	if answer.StatusCode == http.StatusTooManyRequests {
		c.first.Do(func() {
			c.refused = fmt.Sprintf("%s, Retry-After: %s\n%s",
				answer.Status, answer.Header.Get("Retry-After"), strings.TrimSpace(string(body)))
		})
	}
	return nil
}
