//go:build go1.27

package leapsql

import "database/sql/driver"

// scanner is a call whose rows implement driver.RowsColumnScanner. database/sql calls NextRow and ScanColumn
// instead of Next for such rows, so other rows must not implement the interface.
type scanner struct {
	*call
	raw driver.RowsColumnScanner
}

func withScanner(c *call) driver.Rows {
	if raw, ok := c.Rows.(driver.RowsColumnScanner); ok {
		return scanner{c, raw}
	}
	return c
}

func (s scanner) NextRow() error { return s.guard(s.raw.NextRow) }

// ScanColumn does not count an error as a failure: it means that a value does not fit its destination.
func (s scanner) ScanColumn(ctx driver.ScanContext, index int, dest any) error {
	return s.raw.ScanColumn(ctx, index, dest)
}
