package leapsql

import (
	"context"
	"database/sql/driver"
	"errors"
)

// conn is a connection. database/sql calls one method at a time.
//
// It implements every optional interface whose absence a method can express in its result, and forwards to
// raw if raw implements the interface too.
type conn struct {
	connector *Connector
	raw       driver.Conn
	skipped   *call // the call that the driver wants to be prepared first; nil if there is none
	statement string
	discard   bool // the connection must not be reused; see BeginTx
}

// A driver without queryer or execer gets prepared statements instead. database/sql converts arguments
// differently for them, so conn implements these two only if raw does.
type (
	queryer struct{ conn *conn }
	execer  struct{ conn *conn }

	// The forms without a context, which drivers should no longer have.
	oldQueryer interface {
		Query(query string, args []driver.Value) (driver.Rows, error)
	}
	oldExecer interface {
		Exec(query string, args []driver.Value) (driver.Result, error)
	}
)

// wrap returns a connection that implements queryer and execer if raw does.
func wrap(connector *Connector, raw driver.Conn) driver.Conn {
	c := &conn{connector: connector, raw: raw}
	queries := implements[driver.QueryerContext](raw) || implements[oldQueryer](raw)
	executes := implements[driver.ExecerContext](raw) || implements[oldExecer](raw)
	switch {
	case queries && executes:
		return struct {
			*conn
			queryer
			execer
		}{c, queryer{c}, execer{c}}
	case queries:
		return struct {
			*conn
			queryer
		}{c, queryer{c}}
	case executes:
		return struct {
			*conn
			execer
		}{c, execer{c}}
	default:
		return c
	}
}

func implements[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

func (c *conn) unwrap() driver.Conn { return c.raw }

// skip leaves a call to the prepared statement that database/sql makes of it next.
func (c *conn) skip(one *call, statement string) {
	c.skipped.drop()
	c.skipped, c.statement = one, statement
}

func (c *conn) Close() error {
	c.skip(nil, "")
	return c.raw.Close()
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	prepare := func() (driver.Stmt, error) {
		if p, ok := c.raw.(driver.ConnPrepareContext); ok {
			return p.PrepareContext(ctx, query)
		}
		raw, err := c.raw.Prepare(query)
		if err == nil && ctx.Err() != nil {
			_ = raw.Close()
			return nil, ctx.Err()
		}
		return raw, err
	}
	if c.skipped == nil || c.statement != query {
		c.skip(nil, "")
		raw, err := run(ctx, c.connector, c.connector.prepare, prepare)
		if err != nil {
			return nil, err
		}
		return wrapStmt(c, raw, nil), nil
	}
	one := c.skipped
	c.skipped = nil
	var raw driver.Stmt
	var err error
	_ = one.do(func() error {
		if raw, err = prepare(); err != nil {
			return err
		}
		return driver.ErrSkip // the call goes on
	})
	if err != nil {
		one.drop() // if it has not ended
		return nil, err
	}
	return wrapStmt(c, raw, one), nil
}

func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	b, ok := c.raw.(driver.ConnBeginTx)
	switch { // what database/sql says
	case ok:
	case opts.Isolation != 0:
		return nil, errors.New("sql: driver does not support non-default isolation level")
	case opts.ReadOnly:
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	tx, err := run(ctx, c.connector, c.connector.begins, func() (driver.Tx, error) {
		if ok {
			return b.BeginTx(ctx, opts)
		}
		tx, err := c.raw.Begin() //nolint:staticcheck // the driver has nothing else
		if err == nil && ctx.Err() != nil {
			_ = tx.Rollback()
			return nil, ctx.Err()
		}
		return tx, err
	})
	resets, validates := implements[driver.SessionResetter](c.raw), implements[driver.Validator](c.raw)
	if err == nil && (!resets || !validates) {
		tx = discardingTx{tx, c, ctx}
	}
	return tx, err
}

// discardingTx is a transaction of a driver that lacks SessionResetter or Validator. database/sql discards the
// connection of such a driver if the context of the transaction ends. For conn, which implements both
// interfaces, it would keep the connection.
type discardingTx struct {
	driver.Tx
	conn *conn
	ctx  context.Context //nolint:containedctx // the transaction's: Rollback has none
}

func (t discardingTx) Rollback() error {
	t.conn.discard = t.ctx.Err() != nil
	return t.Tx.Rollback()
}

func (c *conn) ResetSession(ctx context.Context) error {
	if r, ok := c.raw.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	v, ok := c.raw.(driver.Validator)
	return !c.discard && (!ok || v.IsValid())
}

func (c *conn) Ping(ctx context.Context) error {
	p, ok := c.raw.(driver.Pinger)
	if !ok {
		return nil
	}
	_, err := run(ctx, c.connector, c.connector.ping, func() (struct{}, error) { return struct{}{}, p.Ping(ctx) })
	return err
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.raw.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (q queryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	one, err := q.conn.connector.begin(ctx, q.conn.connector.query)
	if err != nil {
		return nil, err
	}
	err = one.do(func() (err error) {
		if with, ok := q.conn.raw.(driver.QueryerContext); ok {
			one.Rows, err = with.QueryContext(ctx, query, args)
			return err
		}
		values, err := plain(ctx, args)
		if err == nil {
			one.Rows, err = q.conn.raw.(oldQueryer).Query(query, values)
		}
		return err
	})
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares so
		q.conn.skip(one, query)
	}
	return one.rows(err)
}

func (e execer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	one, err := e.conn.connector.begin(ctx, e.conn.connector.exec)
	if err != nil {
		return nil, err
	}
	err = one.do(func() (err error) {
		if with, ok := e.conn.raw.(driver.ExecerContext); ok {
			result, err = with.ExecContext(ctx, query, args)
			return err
		}
		values, err := plain(ctx, args)
		if err == nil {
			result, err = e.conn.raw.(oldExecer).Exec(query, values)
		}
		return err
	})
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares so
		e.conn.skip(one, query)
	}
	return result, err
}

// errNamed is the caller's mistake, of which the database does not hear.
var errNamed = errors.New("sql: driver does not support the use of Named Parameters")

// plain returns the arguments for a driver that knows neither names nor contexts, as database/sql does.
func plain(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, arg := range args {
		if arg.Name != "" {
			return nil, errNamed
		}
		values[i] = arg.Value
	}
	return values, ctx.Err()
}
