// Package leapsql puts a gate in front of a database that is used through database/sql: around the
// connector of any driver.
//
//	connector, err := leapsql.New(driverConnector, leapsql.Config{Gate: gate, Resource: "orders-db"})
//	…
//	db := sql.OpenDB(connector)
//
// A driver that has no function for its connector has one by OpenConnector, if its Driver is a
// [driver.DriverContext].
//
// # Calls
//
// There is a resource for each kind of statement, and never one for its text. With the Resource
// "orders-db" they are:
//
//	orders-db connect   a new connection is opened
//	orders-db ping      the connection is checked (DB.Ping)
//	orders-db prepare   a statement is prepared
//	orders-db query     rows are asked for, until they are closed
//	orders-db exec      a statement is executed that has no rows
//	orders-db begin     a transaction begins
//
// A rule for "orders-db *" with a pattern binds each of them by itself. Where a database is away, it is
// often connect alone that fails, so it needs a breaker too.
//
// Rows are in flight until they are closed, which database/sql also does at their end, after an error,
// and when the context of the query ends. So rows that are neither closed nor read to the end, with a context that
// never ends, keep their place. A transaction is in flight while it begins, and then no more; its
// statements are calls like any others. Commit and Rollback are no calls: to refuse them would help
// nobody.
//
// Each attempt is a call: where a driver says [driver.ErrBadConn], database/sql tries again, up to
// three times. A statement that is not prepared beforehand is one call also if the driver makes
// database/sql prepare it, by [driver.ErrSkip]. A driver that can execute prepared statements only
// has a call of prepare for each statement.
//
// # Refusals
//
// What a rule refuses does not reach the driver. The error is leapgate.ErrBlocked, a
// *leapgate.BlockError. database/sql does not try again after it, and keeps the connection. A rule that
// lets calls wait makes them wait with the connection that they have, but for connect.
//
// # Drivers
//
// The wrapped driver behaves as if it were not wrapped. It forwards all optional interfaces of package
// database/sql/driver. What [sql.Conn.Raw] hands out is wrapped; [Raw] returns the driver's own.
package leapsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/resource"
)

// Config says what stands in front of a database.
type Config struct {
	// Gate admits the calls. It is required.
	Gate *leapgate.Gate

	// Resource is what the names of the resources begin with, such as the name of the database: 1 to
	// 1,000 bytes; empty is "sql".
	Resource string

	// Outcome says how a call has ended whose driver returned that error, which is not nil: by
	// it a program can tell errors that the database answered, as a key that is there already, from those
	// of a database that cannot serve. It is not asked of calls that the caller has canceled: the gate gets
	// context.Canceled for them, which is ignored by default. It must be safe for concurrent use. If it panics,
	// the call has failed.
	//
	// Nil: [sql.ErrNoRows] is a success, and for anything else the gate's Outcome is asked. By default
	// that makes them failures, driver.ErrBadConn and context.DeadlineExceeded too.
	Outcome func(error) leapgate.Outcome
}

const (
	defaultResource = "sql"
	maxResource     = 1000
)

// ErrConfig is what every error of [New] is.
var ErrConfig = errors.New("leapsql: bad configuration")

// Connector is a [driver.Connector] with a gate in front of it, for [sql.OpenDB]. It may be used by any number
// of goroutines at once.
type Connector struct {
	base                                        driver.Connector
	outcome                                     func(error) leapgate.Outcome
	connect, ping, prepare, query, exec, begins *resource.Resource
}

// New returns a connector around another one. The error, if any, is [ErrConfig], and names
// everything that is wrong.
func New(connector driver.Connector, cfg Config) (*Connector, error) {
	var faults []error
	if connector == nil {
		faults = append(faults, fmt.Errorf("%w: the connector is nil; want that of a driver", ErrConfig))
	}
	if cfg.Gate == nil {
		faults = append(faults, fmt.Errorf("%w: Gate is nil; want a gate", ErrConfig))
	}
	if len(cfg.Resource) > maxResource {
		faults = append(faults, fmt.Errorf("%w: Resource has %d bytes; want 1 to %d, or none for %q", ErrConfig, len(cfg.Resource), maxResource, defaultResource))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if cfg.Resource == "" {
		cfg.Resource = defaultResource
	}
	of := func(kind string) *resource.Resource { return cfg.Gate.Resource(cfg.Resource + " " + kind) }
	return &Connector{
		connector, cfg.Outcome,
		of("connect"), of("ping"), of("prepare"), of("query"), of("exec"), of("begin"),
	}, nil
}

// Must is [New] for a configuration that is known to be good. It panics otherwise.
func Must(connector driver.Connector, cfg Config) *Connector {
	c, err := New(connector, cfg)
	if err != nil {
		panic(err)
	}
	return c
}

// Connect opens a connection, unless a rule refuses.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := run(ctx, c, c.connect, func() (driver.Conn, error) { return c.base.Connect(ctx) })
	if err != nil {
		return nil, err
	}
	return wrap(c, raw), nil
}

// Driver returns the driver of the wrapped connector.
func (c *Connector) Driver() driver.Driver { return c.base.Driver() }

// Close closes the wrapped connector, if it can be closed. [sql.DB.Close] calls it.
func (c *Connector) Close() error {
	if closer, ok := c.base.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// Raw returns the driver's own connection of what [sql.Conn.Raw] hands out:
//
//	err := conn.Raw(func(c any) error { return leapsql.Raw(c).(*stdlib.Conn)… })
//
// What is done with it is no call. Anything else it returns as it is.
func Raw(driverConn any) any {
	if wrapped, ok := driverConn.(interface{ unwrap() driver.Conn }); ok {
		return wrapped.unwrap()
	}
	return driverConn
}

// run runs do as a call into a resource.
func run[T any](ctx context.Context, c *Connector, r *resource.Resource, do func() (T, error)) (T, error) {
	e, err := r.EntryContext(ctx)
	if err != nil {
		var none T
		return none, err
	}
	judged := false
	defer func() { end(&e, judged) }()
	result, err := do()
	c.judge(&e, ctx, err)
	judged = true
	return result, err
}

// end ends a call, which has failed if the driver, or what judged it, has panicked.
func end(e *resource.Entry, judged bool) {
	if !judged {
		e.SetOutcome(leapgate.Failure)
	}
	e.Exit()
}

// judge notes how a call went by an error of the driver. Of several the gravest counts, unless Outcome
// says otherwise.
func (c *Connector) judge(e *resource.Entry, ctx context.Context, err error) { //nolint:revive // as run has them
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled):
		e.SetError(context.Canceled) // what drivers return then says less
	case err == errNamed: //nolint:errorlint // it is never wrapped
		e.SetOutcome(leapgate.Ignored)
	case c.outcome != nil:
		if o := c.outcome(err); o != leapgate.Success {
			e.SetOutcome(o)
		}
	case !errors.Is(err, sql.ErrNoRows):
		e.SetErrorContext(ctx, err)
	}
}
