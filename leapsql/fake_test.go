package leapsql_test

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leapsql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a database: a connector whose connections have what conn returns them with, and that notes
// what it is asked.
type fake struct {
	conn func(*base) driver.Conn
	// fails returns the error of what is asked, such as "query"; it may panic. Nil: there is none.
	fails func(ctx context.Context, what string) error

	inputs int // of statements; 0: it does not know

	mu  sync.Mutex
	log []string
}

func (f *fake) ask(ctx context.Context, what string, args ...any) error {
	f.mu.Lock()
	f.log = append(f.log, strings.TrimSpace(what+" "+fmt.Sprint(args...)))
	f.mu.Unlock()
	if f.fails != nil {
		return f.fails(ctx, what)
	}
	return nil
}

// asked is how often it was asked for something.
func (f *fake) asked(what string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.log {
		if strings.HasPrefix(line, what) {
			n++
		}
	}
	return n
}

func (f *fake) Driver() driver.Driver { return nil }

func (f *fake) Connect(ctx context.Context) (driver.Conn, error) {
	if err := f.ask(ctx, "connect"); err != nil {
		return nil, err
	}
	if f.conn == nil {
		return full(&base{f}), nil
	}
	return f.conn(&base{f}), nil
}

// base has what every connection must have.
type base struct{ f *fake }

func (c *base) Close() error { return c.f.ask(context.Background(), "close") }

func (c *base) Prepare(query string) (driver.Stmt, error) {
	return &stmt{c.f}, c.f.ask(context.Background(), "prepare", query)
}

func (c *base) Begin() (driver.Tx, error) { return tx{c.f}, c.f.ask(context.Background(), "begin") }

// What some have besides.
type (
	queries   struct{ f *fake }
	execs     struct{ f *fake }
	oldForms  struct{ f *fake }
	resets    struct{ f *fake }
	validates struct{ f *fake }
	others    struct{ f *fake } // of which the absence can be answered
)

func (c queries) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return &rows{f: c.f}, c.f.ask(ctx, "query", query, args)
}

func (c execs) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), c.f.ask(ctx, "exec", query, args)
}

func (c oldForms) Query(query string, args []driver.Value) (driver.Rows, error) {
	return &rows{f: c.f}, c.f.ask(context.Background(), "query", query, args)
}

func (c oldForms) Exec(query string, args []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), c.f.ask(context.Background(), "exec", query, args)
}

func (c resets) ResetSession(ctx context.Context) error { return c.f.ask(ctx, "reset") }
func (c validates) IsValid() bool                       { return c.f.ask(context.Background(), "valid") == nil }

func (c others) Ping(ctx context.Context) error { return c.f.ask(ctx, "ping") }

func (c others) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return tx(c), c.f.ask(ctx, "begin", opts)
}

func (c others) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s := struct {
		*stmt
		converter
		withContext
	}{&stmt{c.f}, converter(c), withContext(c)}
	return s, c.f.ask(ctx, "prepare", query)
}

func (c others) CheckNamedValue(v *driver.NamedValue) error {
	if own, is := v.Value.(ownType); is {
		v.Value = string("own " + own)
		return nil
	}
	return driver.ErrSkip
}

// ownType is a type that some drivers take as an argument.
type ownType string

// full has all.
func full(c *base) driver.Conn {
	return struct {
		*base
		queries
		execs
		resets
		validates
		others
	}{c, queries{c.f}, execs{c.f}, resets{c.f}, validates{c.f}, others{c.f}}
}

type stmt struct{ f *fake }

func (s *stmt) Close() error  { return s.f.ask(context.Background(), "close statement") }
func (s *stmt) NumInput() int { return cmp.Or(s.f.inputs, -1) }

func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(2), s.f.ask(context.Background(), "statement exec", args)
}

func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return &rows{f: s.f}, s.f.ask(context.Background(), "statement query", args)
}

type (
	converter   struct{ f *fake }
	withContext struct{ f *fake }
)

func (s converter) ColumnConverter(int) driver.ValueConverter { return driver.String }

func (s withContext) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(3), s.f.ask(ctx, "statement exec", args)
}

func (s withContext) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return &rows{f: s.f}, s.f.ask(ctx, "statement query", args)
}

type tx struct{ f *fake }

func (t tx) Commit() error   { return t.f.ask(context.Background(), "commit") }
func (t tx) Rollback() error { return t.f.ask(context.Background(), "rollback") }

// rows are three.
type rows struct {
	f *fake
	n int64
}

func (r *rows) Columns() []string { return []string{"n"} }
func (r *rows) Close() error      { return r.f.ask(context.Background(), "close rows") }

func (r *rows) Next(dest []driver.Value) error {
	if err := r.f.ask(context.Background(), "next"); err != nil {
		return err
	}
	if r.n == 3 {
		return io.EOF
	}
	r.n++
	dest[0] = r.n
	return nil
}

// open returns a database with a gate in front of it, whose entries must all end.
func open(t *testing.T, f *fake, rules leapgate.Rules, clock *leapgatetest.Clock) (*sql.DB, *leapgatetest.Gate) {
	t.Helper()
	gate := leapgatetest.New(t, leapgate.Config{}, clock)
	require.NoError(t, gate.LoadRules(rules))
	db := sql.OpenDB(leapsql.Must(f, leapsql.Config{Gate: gate.Gate, Resource: "db"}))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db, gate
}
