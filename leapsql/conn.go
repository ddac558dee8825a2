package leapsql

import (
	"context"
	"database/sql/driver"
	"errors"
)

// conn is a connection. database/sql calls one method at a time.
type conn struct {
	connector *Connector
	raw       driver.Conn
	skipped   *call // that the driver wants to be prepared first; nil: there is none
	statement string
}

// What only some drivers have. database/sql asks for it, and goes another way without.
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

// wrap wraps a connection in a type that has what it has. Where it makes no difference
// to database/sql, because the absence of something can be answered, conn has it always.
func wrap(connector *Connector, raw driver.Conn) driver.Conn {
	c := &conn{connector: connector, raw: raw}
	q, e := queryer{c}, execer{c}
	reset, resets := raw.(driver.SessionResetter)
	valid, validates := raw.(driver.Validator)
	_, queries := raw.(driver.QueryerContext)
	if !queries {
		_, queries = raw.(oldQueryer)
	}
	_, executes := raw.(driver.ExecerContext)
	if !executes {
		_, executes = raw.(oldExecer)
	}
	type (
		r = driver.SessionResetter
		v = driver.Validator
	)
	switch [4]bool{queries, executes, resets, validates} {
	case [4]bool{true, true, true, true}:
		return struct {
			*conn
			queryer
			execer
			r
			v
		}{c, q, e, reset, valid}
	case [4]bool{true, true, true, false}:
		return struct {
			*conn
			queryer
			execer
			r
		}{c, q, e, reset}
	case [4]bool{true, true, false, true}:
		return struct {
			*conn
			queryer
			execer
			v
		}{c, q, e, valid}
	case [4]bool{true, true, false, false}:
		return struct {
			*conn
			queryer
			execer
		}{c, q, e}
	case [4]bool{true, false, true, true}:
		return struct {
			*conn
			queryer
			r
			v
		}{c, q, reset, valid}
	case [4]bool{true, false, true, false}:
		return struct {
			*conn
			queryer
			r
		}{c, q, reset}
	case [4]bool{true, false, false, true}:
		return struct {
			*conn
			queryer
			v
		}{c, q, valid}
	case [4]bool{true, false, false, false}:
		return struct {
			*conn
			queryer
		}{c, q}
	case [4]bool{false, true, true, true}:
		return struct {
			*conn
			execer
			r
			v
		}{c, e, reset, valid}
	case [4]bool{false, true, true, false}:
		return struct {
			*conn
			execer
			r
		}{c, e, reset}
	case [4]bool{false, true, false, true}:
		return struct {
			*conn
			execer
			v
		}{c, e, valid}
	case [4]bool{false, true, false, false}:
		return struct {
			*conn
			execer
		}{c, e}
	case [4]bool{false, false, true, true}:
		return struct {
			*conn
			r
			v
		}{c, reset, valid}
	case [4]bool{false, false, true, false}:
		return struct {
			*conn
			r
		}{c, reset}
	case [4]bool{false, false, false, true}:
		return struct {
			*conn
			v
		}{c, valid}
	default:
		return c
	}
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
	return run(ctx, c.connector, c.connector.begins, func() (driver.Tx, error) {
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
	return q.conn.rows(one, query, err)
}

// rows returns the rows of a call.
func (c *conn) rows(one *call, query string, err error) (driver.Rows, error) {
	switch {
	case err == driver.ErrSkip: //nolint:errorlint // database/sql compares so
		c.skip(one, query)
		return nil, err
	case err != nil || one.Rows == nil:
		return nil, err
	default:
		return one, nil
	}
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
