package leapsql

import (
	"context"
	"database/sql/driver"

	"github.com/leapgate-go/leapgate/resource"
)

// stmt is a prepared statement.
type stmt struct {
	conn    *conn
	raw     driver.Stmt
	skipped *call // that it was prepared for; nil: none, or it has begun
}

type (
	columnConverter interface {
		ColumnConverter(index int) driver.ValueConverter
	}
	// The forms without a context, which drivers should no longer need.
	oldStmt interface {
		Exec(args []driver.Value) (driver.Result, error)
		Query(args []driver.Value) (driver.Rows, error)
	}
)

// wrapStmt wraps a statement in a type that has what it has.
func wrapStmt(c *conn, raw driver.Stmt, skipped *call) driver.Stmt {
	s := &stmt{c, raw, skipped}
	if converter, ok := raw.(columnConverter); ok {
		return struct {
			*stmt
			columnConverter
		}{s, converter}
	}
	return s
}

func (s *stmt) NumInput() int { return s.raw.NumInput() }

func (s *stmt) Close() error {
	s.skipped.drop()
	s.skipped = nil
	return s.raw.Close()
}

// begin begins a call, or continues the one for which the statement was prepared.
func (s *stmt) begin(ctx context.Context, r *resource.Resource) (*call, error) {
	one := s.skipped
	s.skipped = nil
	if one != nil && one.resource == r {
		one.ctx = ctx
		return one, nil
	}
	one.drop()
	return s.conn.connector.begin(ctx, r)
}

func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (result driver.Result, err error) {
	one, err := s.begin(ctx, s.conn.connector.exec)
	if err != nil {
		return nil, err
	}
	err = one.do(func() (err error) {
		if with, ok := s.raw.(driver.StmtExecContext); ok {
			result, err = with.ExecContext(ctx, args)
			return err
		}
		values, err := plain(ctx, args)
		if err == nil {
			result, err = oldStmt(s.raw).Exec(values)
		}
		return err
	})
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares so
		one.drop()
	}
	return result, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	one, err := s.begin(ctx, s.conn.connector.query)
	if err != nil {
		return nil, err
	}
	err = one.do(func() (err error) {
		if with, ok := s.raw.(driver.StmtQueryContext); ok {
			one.Rows, err = with.QueryContext(ctx, args)
			return err
		}
		values, err := plain(ctx, args)
		if err == nil {
			one.Rows, err = oldStmt(s.raw).Query(values)
		}
		return err
	})
	if err == driver.ErrSkip { //nolint:errorlint // database/sql compares so
		one.drop()
	}
	return one.rows(err)
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := s.raw.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

func named(args []driver.Value) []driver.NamedValue {
	all := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		all[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	return all
}
