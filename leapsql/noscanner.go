//go:build !go1.27

package leapsql

import "database/sql/driver"

func withScanner(c *call) driver.Rows { return c }
