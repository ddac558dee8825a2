//go:build go1.27

package leapsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapgatetest"
)

// scannedRows scan a list of names into a []string, which database/sql cannot do by itself.
type scannedRows struct{ rows }

func (r *scannedRows) NextRow() error { return r.Next(make([]driver.Value, 1)) }

func (r *scannedRows) ScanColumn(_ driver.ScanContext, _ int, dest any) error {
	names, ok := dest.(*[]string)
	if !ok {
		return errors.New("not a list")
	}
	*names = []string{"a", "b"}
	return nil
}

type scanningConn struct{ *base }

func (c scanningConn) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	return &scannedRows{rows{f: c.f}}, c.f.ask(ctx, "query", query)
}

func TestConnector_RowsScanColumnsThemselves(t *testing.T) {
	t.Parallel()
	f := &fake{conn: func(c *base) driver.Conn { return scanningConn{c} }}
	db, gate := open(t, f, leapgate.Rules{}, leapgatetest.NewClock())
	var names []string
	require.NoError(t, db.QueryRow("q").Scan(&names))
	require.Equal(t, []string{"a", "b"}, names)
	require.Error(t, db.QueryRow("q").Scan(new(int)))
	require.Equal(t, [5]int64{2, 0, 0, 0, 0}, figures(gate, "query"))

	f.fails = func(_ context.Context, what string) error {
		if what == "next" {
			return sql.ErrConnDone
		}
		return nil
	}
	require.ErrorIs(t, db.QueryRow("q").Scan(&names), sql.ErrConnDone)
	require.Equal(t, [5]int64{3, 0, 1, 0, 0}, figures(gate, "query"))
}
