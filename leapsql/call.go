package leapsql

import (
	"context"
	"database/sql/driver"
	"io"
	"reflect"

	"github.com/leapgate-go/leapgate/resource"
)

// call is a query or an exec that was admitted. It stands before its rows, and ends with them.
type call struct {
	connector *Connector
	ctx       context.Context //nolint:containedctx // the query's: rows have none
	resource  *resource.Resource
	entry     resource.Entry
	over      bool // the rows have come to their end, or to an error
	driver.Rows
}

// begin begins a call into a resource, unless a rule refuses it.
func (c *Connector) begin(ctx context.Context, r *resource.Resource) (*call, error) {
	one := &call{connector: c, ctx: ctx, resource: r}
	var err error
	if one.entry, err = r.EntryContext(ctx); err != nil {
		return nil, err
	}
	return one, nil
}

// do does what the call is, and ends it, unless it is skipped.
func (c *call) do(f func() error) error {
	judged, lasts := false, false
	defer func() {
		if !lasts {
			end(&c.entry, judged)
		}
	}()
	err := f()
	if lasts = err == driver.ErrSkip || err == nil && c.Rows != nil; !lasts { //nolint:errorlint // database/sql compares so
		c.connector.judge(&c.entry, c.ctx, err)
	}
	judged = true
	return err
}

// rows returns the rows of a query that returned err.
func (c *call) rows(err error) (driver.Rows, error) {
	if err != nil || c.Rows == nil {
		return nil, err
	}
	return withScanner(c), nil
}

// drop ends a call of which nothing became, if it has not ended; a nil one too.
func (c *call) drop() {
	if c != nil {
		c.entry.SetOutcome(resource.Ignored)
		c.entry.Exit()
	}
}

// note notes what reading the rows returned.
func (c *call) note(err error) error {
	if err != nil {
		c.over = true
	}
	if err != io.EOF { //nolint:errorlint // database/sql compares so
		c.connector.judge(&c.entry, c.ctx, err)
	}
	return err
}

// guard has a panic of the driver while rows are read counted as a failure.
func (c *call) guard(f func() error) error {
	judged := false
	defer func() {
		if !judged {
			c.entry.SetOutcome(resource.Failure)
		}
	}()
	err := c.note(f())
	judged = true
	return err
}

func (c *call) Next(dest []driver.Value) error {
	return c.guard(func() error { return c.Rows.Next(dest) })
}

// Close ends the call. If its context has ended before the rows have, that is how it ended.
func (c *call) Close() error {
	judged := false
	defer func() { end(&c.entry, judged) }()
	err := c.Rows.Close()
	c.connector.judge(&c.entry, c.ctx, err)
	if !c.over {
		c.connector.judge(&c.entry, c.ctx, c.ctx.Err())
	}
	judged = true
	return err
}

// The methods below implement the optional interfaces of rows. If the driver's rows lack one, the result is what
// database/sql assumes in that case. RowsColumnScanner is not among them: see withScanner.

func (c *call) HasNextResultSet() bool {
	rows, ok := c.Rows.(driver.RowsNextResultSet)
	return ok && rows.HasNextResultSet()
}

func (c *call) NextResultSet() error {
	rows, ok := c.Rows.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	c.over = false
	return c.guard(rows.NextResultSet)
}

func (c *call) ColumnTypeScanType(index int) reflect.Type {
	if rows, ok := c.Rows.(driver.RowsColumnTypeScanType); ok {
		return rows.ColumnTypeScanType(index)
	}
	return reflect.TypeFor[any]()
}

func (c *call) ColumnTypeDatabaseTypeName(index int) string {
	if rows, ok := c.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return rows.ColumnTypeDatabaseTypeName(index)
	}
	return ""
}

func (c *call) ColumnTypeLength(index int) (length int64, ok bool) {
	if rows, has := c.Rows.(driver.RowsColumnTypeLength); has {
		return rows.ColumnTypeLength(index)
	}
	return 0, false
}

func (c *call) ColumnTypeNullable(index int) (nullable, ok bool) {
	if rows, has := c.Rows.(driver.RowsColumnTypeNullable); has {
		return rows.ColumnTypeNullable(index)
	}
	return false, false
}

func (c *call) ColumnTypePrecisionScale(index int) (precision, scale int64, ok bool) {
	if rows, has := c.Rows.(driver.RowsColumnTypePrecisionScale); has {
		return rows.ColumnTypePrecisionScale(index)
	}
	return 0, 0, false
}
