package main

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leapgate-go/leapgate/leapprom"
	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
	"github.com/leapgate-go/leapgate/limit"
)

type limits struct {
	perAddress int64 // in a window
	window     time.Duration
	perKey     int64 // in a minute, without a plan

	redis     string // addresses, with commas; empty: the limits are of this process
	processes int    // that share them
	timeout   time.Duration
}

// limiter is what the limiters in memory and those over Redis have in common.
type limiter interface {
	limit.Limiter
	leapprom.Limiter
	Close() error
}

// limiters are those of the API. Close ends them.
type limiters struct {
	perAddress, perKey limiter
	closers            []io.Closer // in that order
}

// ofPlan is the limit of a customer.
func (l limits) ofPlan(customer string) int64 {
	if plans[customer] == "pro" {
		return 10 * l.perKey
	}
	return limit.Default
}

func newLimiters(l limits) (*limiters, error) {
	if l.redis == "" {
		return inMemory(l)
	}
	return overRedis(l)
}

func inMemory(l limits) (*limiters, error) {
	perAddress, err := limit.NewCounter(limit.Config{Name: "per-address", Limit: l.perAddress, Window: l.window})
	if err != nil {
		return nil, err
	}
	perKey, err := limit.NewLog(limit.Config{
		Name: "per-key", Limit: l.perKey, MaxLimit: 10 * l.perKey, LimitFor: l.ofPlan, Window: time.Minute,
	})
	if err != nil {
		return nil, err
	}
	return &limiters{perAddress, perKey, []io.Closer{perAddress, perKey}}, nil
}

// overRedis makes the same limits for all processes. The program starts also if no server answers:
// go-redis connects when it is first called.
func overRedis(l limits) (*limiters, error) {
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: strings.Split(l.redis, ","), // of a single server, or some of a Cluster
		// Limiters wait for l.timeout, 50 ms. A connection on which nothing is answered is held
		// for ReadTimeout.
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
		MaxRetries: -1, DialerRetries: 1, // a request has no time for more
	})
	// Anybody may call, so each process admits its share of the limit while no server
	// answers. A server with many calls of one address would have a Lease, too.
	perAddress, err := leapredis.NewCounter(viagoredis.New(client), leapredis.Config{
		Name: "per-address", Prefix: "httpapi:address:", Limit: l.perAddress, Window: l.window,
		WhenAway: leapredis.Local, Instances: l.processes, Timeout: l.timeout,
	})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	// A report costs money, so there is none that is not counted. The limit is small, and has to
	// be exact: a log.
	perKey, err := leapredis.NewLog(viagoredis.New(client), leapredis.Config{
		Name: "per-key", Prefix: "httpapi:key:", Limit: l.perKey, MaxLimit: 10 * l.perKey, LimitFor: l.ofPlan, Window: time.Minute,
		WhenAway: leapredis.Deny, Timeout: l.timeout,
	})
	if err != nil {
		return nil, errors.Join(err, perAddress.Close(), client.Close())
	}
	// The client is closed last: limiters give back what they have leased.
	return &limiters{perAddress, perKey, []io.Closer{perAddress, perKey, client}}, nil
}

// Close ends the limiters, when no request is served any more.
func (l *limiters) Close() (err error) {
	for _, c := range l.closers {
		err = errors.Join(err, c.Close())
	}
	return err
}
