package leapsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
	"github.com/leapgate-go/leapgate/leapgatetest"
	"github.com/leapgate-go/leapgate/leapsql"
	"github.com/leapgate-go/leapgate/rule"
)

func TestNew_NamesAllThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := leapsql.New(nil, leapsql.Config{Resource: strings.Repeat("x", 1001)})
	require.ErrorIs(t, err, leapsql.ErrConfig)
	require.EqualError(t, err, `leapsql: bad configuration: the connector is nil; want that of a driver
leapsql: bad configuration: Gate is nil; want a gate
leapsql: bad configuration: Resource has 1001 bytes; want 1 to 1000, or none for "sql"`)
}

// use does what programs do, and returns what they see.
func use(t *testing.T, db *sql.DB) (seen []string) {
	t.Helper()
	ctx := t.Context()
	see := func(what any, err error) { seen = append(seen, fmt.Sprint(what, " ", err)) }
	read := func(rows *sql.Rows, err error) {
		if err != nil {
			see("rows", err)
			return
		}
		types, err := rows.ColumnTypes()
		require.NoError(t, err)
		see(*types[0], nil)
		for rows.Next() || rows.NextResultSet() {
			var n string
			see(n, rows.Scan(&n))
		}
		see("end", errors.Join(rows.Err(), rows.Close()))
	}
	exec := func(result sql.Result, err error) {
		if err != nil {
			see("result", err)
			return
		}
		see(result.RowsAffected())
	}
	exec(db.ExecContext(ctx, "e", 1, "a"))
	exec(db.ExecContext(ctx, "e", ownType("x")))
	exec(db.ExecContext(ctx, "e", sql.Named("a", 1)))
	exec(db.ExecContext(ctx, "e", struct{}{}))
	read(db.QueryContext(ctx, "q", 1, "a"))
	read(db.QueryContext(ctx, "q", ownType("x")))
	read(db.QueryContext(ctx, "q", struct{}{}))
	s, err := db.PrepareContext(ctx, "p")
	require.NoError(t, err)
	exec(s.ExecContext(ctx, 1, ownType("x")))
	read(s.QueryContext(ctx, 1.5))
	see("close", s.Close())
	for _, opts := range []*sql.TxOptions{nil, {ReadOnly: true}, {Isolation: sql.LevelSerializable}} {
		tx, err := db.BeginTx(ctx, opts)
		see("begin", err)
		if err == nil {
			exec(tx.ExecContext(ctx, "e"))
			see("commit", tx.Commit())
		}
	}
	see("ping", db.PingContext(ctx))
	see("stats", fmt.Errorf("%d", db.Stats().OpenConnections))
	return seen
}

// drivers are connections that have, and have not, what they may have.
var drivers = map[string]func(*base) driver.Conn{
	"all":  full,
	"none": func(c *base) driver.Conn { return c },
	"query": func(c *base) driver.Conn {
		return struct {
			*base
			queries
		}{c, queries{c.f}}
	},
	"exec": func(c *base) driver.Conn {
		return struct {
			*base
			execs
			others
		}{c, execs{c.f}, others{c.f}}
	},
	"old": func(c *base) driver.Conn {
		return struct {
			*base
			oldForms
		}{c, oldForms{c.f}}
	},
	"reset": func(c *base) driver.Conn {
		return struct {
			*base
			queries
			resets
		}{c, queries{c.f}, resets{c.f}}
	},
	"valid": func(c *base) driver.Conn {
		return struct {
			*base
			validates
		}{c, validates{c.f}}
	},
	"both": func(c *base) driver.Conn {
		return struct {
			*base
			resets
			validates
		}{c, resets{c.f}, validates{c.f}}
	},
	"others": func(c *base) driver.Conn {
		return struct {
			*base
			others
		}{c, others{c.f}}
	},
}

func TestConnector_DriversBehaveAsIfTheyWereNotWrapped(t *testing.T) {
	t.Parallel()
	for name, conn := range drivers {
		for _, skip := range []string{"", "query", "exec"} {
			fails := func(_ context.Context, what string) error {
				if what == skip {
					return driver.ErrSkip
				}
				return nil
			}
			bare, wrapped := &fake{conn: conn, fails: fails}, &fake{conn: conn, fails: fails}
			want := sql.OpenDB(bare)
			got, _ := open(t, wrapped, leapgate.Rules{}, nil)
			require.Equal(t, use(t, want), use(t, got), "%s, skipping %s", name, skip)
			require.Equal(t, bare.log, wrapped.log, "%s, skipping %s", name, skip)
			require.NoError(t, want.Close())
		}
	}
}

// A driver that cannot reset a session loses the connection when the context of a transaction ends.
func TestConnector_ATransactionWhoseContextEnds(t *testing.T) {
	t.Parallel()
	for name, conn := range drivers {
		synctest.Test(t, func(t *testing.T) {
			use := func(db *sql.DB) (open int) {
				ctx, cancel := context.WithCancel(t.Context())
				_, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				cancel()
				synctest.Wait()
				tx, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				require.NoError(t, tx.Rollback())
				return db.Stats().OpenConnections
			}
			bare, wrapped := &fake{conn: conn}, &fake{conn: conn}
			want := sql.OpenDB(bare)
			got, _ := open(t, wrapped, leapgate.Rules{}, nil)
			require.Equal(t, use(want), use(got), name)
			require.Equal(t, bare.log, wrapped.log, name)
			require.NoError(t, want.Close())
		})
	}
}

func TestRaw_ReturnsTheConnectionOfTheDriver(t *testing.T) {
	t.Parallel()
	var opened driver.Conn
	db, _ := open(t, &fake{conn: func(c *base) driver.Conn { opened = full(c); return opened }}, leapgate.Rules{}, nil)
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Raw(func(c any) error {
		require.Equal(t, opened, leapsql.Raw(c))
		return nil
	}))
	require.NoError(t, c.Close())
	require.Equal(t, 5, leapsql.Raw(5))
}

// TestDriver_HasNoInterfaceThatIsNotForwarded fails if this Go version has an interface in database/sql/driver
// that older ones do not have. If it is optional, the type named below must forward it.
func TestDriver_HasNoInterfaceThatIsNotForwarded(t *testing.T) {
	t.Parallel()
	known := map[string]string{
		"Driver": "not wrapped", "DriverContext": "not wrapped", "Result": "not wrapped",
		"Valuer": "not wrapped", "ValueConverter": "not wrapped", "Connector": "Connector",
		"Conn": "conn", "ConnBeginTx": "conn", "ConnPrepareContext": "conn", "NamedValueChecker": "conn, stmt",
		"Pinger": "conn", "SessionResetter": "conn", "Validator": "conn",
		"Execer": "execer", "ExecerContext": "execer", "Queryer": "queryer", "QueryerContext": "queryer",
		"Tx": "discardingTx", "Stmt": "stmt", "StmtExecContext": "stmt", "StmtQueryContext": "stmt", "ColumnConverter": "stmt",
		"Rows": "call", "RowsNextResultSet": "call", "RowsColumnTypeDatabaseTypeName": "call", "RowsColumnTypeLength": "call",
		"RowsColumnTypeNullable": "call", "RowsColumnTypePrecisionScale": "call", "RowsColumnTypeScanType": "call",
		"RowsColumnScanner": "scanner",
	}
	pkg, err := build.Import("database/sql/driver", "", 0)
	require.NoError(t, err)
	found := 0
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, name), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
				require.Contains(t, known, spec.Name.Name)
				found++
			}
			return false
		})
	}
	require.GreaterOrEqual(t, found, len(known)-1)
}

// figures are passes, blocks, exceptions, ignored calls and calls in flight.
func figures(g *leapgatetest.Gate, kind string) [5]int64 {
	r := g.Lookup("db " + kind)
	if r == nil {
		return [5]int64{}
	}
	s := r.Snapshot()
	return [5]int64{s.Pass, s.Block, s.Exception, s.Ignored, s.Concurrency}
}

func TestConnector_EachKindOfStatementIsACallIntoItsResource(t *testing.T) {
	t.Parallel()
	db, gate := open(t, &fake{}, leapgate.Rules{}, leapgatetest.NewClock())
	use(t, db)
	for kind, passes := range map[string]int64{"connect": 1, "ping": 1, "prepare": 1, "begin": 3, "exec": 3 + 1 + 3, "query": 2 + 1} {
		require.Equal(t, [5]int64{passes, 0, 0, 0, 0}, figures(gate, kind), kind)
	}
}

// A driver that wants to prepare what has arguments answers ErrSkip: that is one call all the same.
func TestConnector_AStatementThatIsPreparedOnTheWayIsOneCall(t *testing.T) {
	t.Parallel()
	f := &fake{}
	db, gate := open(t, f, leapgate.Rules{}, leapgatetest.NewClock())
	failing := ""
	f.fails = func(_ context.Context, what string) error {
		switch what {
		case "query", "exec":
			return driver.ErrSkip
		case failing:
			return errors.New("failed")
		}
		return nil
	}
	_, err := db.ExecContext(t.Context(), "e", 1)
	require.NoError(t, err)
	require.NoError(t, db.QueryRowContext(t.Context(), "q").Scan(new(int)))
	require.Equal(t, [5]int64{1, 0, 0, 0, 0}, figures(gate, "exec"))
	require.Equal(t, [5]int64{1, 0, 0, 0, 0}, figures(gate, "query"))
	for _, failing = range []string{"prepare", "statement exec"} {
		_, err = db.ExecContext(t.Context(), "e")
		require.EqualError(t, err, "failed")
	}
	failing, f.inputs = "", 2
	_, err = db.ExecContext(t.Context(), "e")
	require.EqualError(t, err, "sql: expected 2 arguments, got 0")
	require.Equal(t, [5]int64{4, 0, 2, 1, 0}, figures(gate, "exec"))
	require.Zero(t, figures(gate, "prepare"))
}

// The driver knows no names, so the database is not asked.
func TestConnector_NamesThatTheDriverDoesNotKnowAreNoFailure(t *testing.T) {
	t.Parallel()
	for name, conn := range map[string]func(*base) driver.Conn{
		"of a statement": func(c *base) driver.Conn { return c },
		"of old forms": func(c *base) driver.Conn {
			return struct {
				*base
				oldForms
			}{c, oldForms{c.f}}
		},
	} {
		db, gate := open(t, &fake{conn: conn}, leapgate.Rules{}, leapgatetest.NewClock())
		_, err := db.ExecContext(t.Context(), "e", sql.Named("n", 1))
		require.EqualError(t, err, "sql: driver does not support the use of Named Parameters", name)
		_, err = db.QueryContext(t.Context(), "q", sql.Named("n", 1))
		require.EqualError(t, err, "sql: driver does not support the use of Named Parameters", name)
		require.Equal(t, [5]int64{1, 0, 0, 1, 0}, figures(gate, "exec"), name)
		require.Equal(t, [5]int64{1, 0, 0, 1, 0}, figures(gate, "query"), name)
	}
}

func TestConnector_RowsAreInFlightUntilTheyAreClosed(t *testing.T) {
	t.Parallel()
	clock := leapgatetest.NewClock()
	db, gate := open(t, &fake{}, leapgate.Rules{}, clock)
	rows, err := db.QueryContext(t.Context(), "q")
	require.NoError(t, err)
	require.True(t, rows.Next())
	clock.Advance(900 * time.Millisecond)
	require.EqualValues(t, 1, figures(gate, "query")[4])
	require.NoError(t, rows.Close())
	require.NoError(t, rows.Err())
	require.Equal(t, [5]int64{1, 0, 0, 0, 0}, figures(gate, "query"))
	require.Equal(t, 900*time.Millisecond, gate.Lookup("db query").Snapshot().AvgRT)
}

func TestConnector_ACallersCancellationEndsRowsAndIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, gate := open(t, &fake{}, leapgate.Rules{}, nil)
		for _, how := range []struct {
			until time.Duration
			want  [5]int64
		}{{time.Hour, [5]int64{1, 0, 0, 1, 0}}, {time.Second, [5]int64{2, 0, 1, 1, 0}}} {
			ctx, cancel := context.WithTimeout(t.Context(), how.until)
			rows, err := db.QueryContext(ctx, "q")
			require.NoError(t, err)
			if how.until == time.Hour {
				cancel()
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(t, how.want, figures(gate, "query"))
			require.Error(t, rows.Err())
			cancel()
		}
	})
}

func TestConnector_OutcomesOfErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want [5]int64
	}{
		{sql.ErrNoRows, [5]int64{1, 0, 0, 0, 0}},
		{fmt.Errorf("one: %w", sql.ErrNoRows), [5]int64{1, 0, 0, 0, 0}},
		{errors.New("broken"), [5]int64{1, 0, 1, 0, 0}},
		{context.DeadlineExceeded, [5]int64{1, 0, 1, 0, 0}},
		{context.Canceled, [5]int64{1, 0, 1, 0, 0}},  // but not by the caller
		{driver.ErrBadConn, [5]int64{3, 0, 3, 0, 0}}, // each attempt is one
	} {
		for kind, do := range map[string]func(*sql.DB) error{
			"exec":    func(db *sql.DB) error { _, err := db.Exec("e"); return err },
			"query":   func(db *sql.DB) error { _, err := db.Query("q"); return err },
			"begin":   func(db *sql.DB) error { _, err := db.Begin(); return err },
			"prepare": func(db *sql.DB) error { _, err := db.Prepare("p"); return err },
			"connect": func(db *sql.DB) error { _, err := db.Conn(context.Background()); return err },
		} {
			f := &fake{fails: func(_ context.Context, what string) error {
				if what == kind {
					return test.err
				}
				return nil
			}}
			db, gate := open(t, f, leapgate.Rules{}, leapgatetest.NewClock())
			require.ErrorIs(t, do(db), test.err)
			require.Equal(t, test.want, figures(gate, kind), "%s: %v", kind, test.err)
		}
	}
}

func TestConnector_RowsThatFailAndDriversThatPanic(t *testing.T) {
	t.Parallel()
	f := &fake{fails: func(_ context.Context, what string) error {
		if what == "next" {
			return errors.New("cut off")
		}
		if what == "exec" {
			panic("driver")
		}
		return nil
	}}
	db, gate := open(t, f, leapgate.Rules{}, leapgatetest.NewClock())
	require.EqualError(t, db.QueryRow("q").Scan(new(int)), "cut off")
	require.Equal(t, [5]int64{1, 0, 1, 0, 0}, figures(gate, "query"))
	require.PanicsWithValue(t, "driver", func() { _, _ = db.Exec("e") })
	require.Equal(t, [5]int64{1, 0, 1, 0, 0}, figures(gate, "exec"))
}

func TestConfig_OutcomeKnowsTheErrorsOfADriver(t *testing.T) {
	t.Parallel()
	gate := leapgatetest.New(t, leapgate.Config{}, leapgatetest.NewClock())
	duplicate := errors.New("duplicate key")
	f := &fake{fails: func(_ context.Context, what string) error {
		if what == "exec" {
			return duplicate
		}
		return nil
	}}
	db := sql.OpenDB(leapsql.Must(f, leapsql.Config{Gate: gate.Gate, Outcome: func(err error) leapgate.Outcome {
		if errors.Is(err, duplicate) {
			return leapgate.Success
		}
		return leapgate.Failure
	}}))
	_, err := db.Exec("e")
	require.ErrorIs(t, err, duplicate)
	require.Zero(t, gate.Lookup("sql exec").Snapshot().Exception)
	require.NoError(t, db.Close())
}

func TestConnector_ARefusalIsNotTriedAgainAndKeepsTheConnection(t *testing.T) {
	t.Parallel()
	f := &fake{}
	db, gate := open(t, f, leapgate.Rules{Flow: []flow.Rule{{ID: "few", Resource: "db *", Match: rule.Glob, Threshold: 1}}}, leapgatetest.NewClock())
	use := map[string]func() error{
		"exec":    func() error { _, err := db.Exec("e"); return err },
		"query":   func() error { return db.QueryRow("q").Scan(new(int)) },
		"ping":    db.Ping,
		"prepare": func() error { s, err := db.Prepare("p"); return errors.Join(err, closed(s)) },
		"begin": func() error {
			tx, err := db.Begin()
			if err != nil {
				return err
			}
			return tx.Rollback()
		},
	}
	for kind, do := range use {
		require.NoError(t, do(), kind)
		before := f.asked(kind)
		leapgatetest.RequireBlocked(t, do(), "few")
		require.Equal(t, before, f.asked(kind))
		require.Equal(t, [5]int64{1, 1, 0, 0, 0}, figures(gate, kind), kind)
	}
	require.Equal(t, 1, f.asked("connect"))
	require.Equal(t, 1, f.asked("close statement"))
	require.Equal(t, 1, db.Stats().OpenConnections)
}

func closed(s *sql.Stmt) error {
	if s == nil {
		return nil
	}
	return s.Close()
}

func TestConnector_ABreakerKeepsADatabaseThatIsAwayFromBeingDialed(t *testing.T) {
	t.Parallel()
	clock := leapgatetest.NewClock()
	away := true
	f := &fake{fails: func(_ context.Context, what string) error {
		if away && what == "connect" {
			return errors.New("refused")
		}
		return nil
	}}
	db, _ := open(t, f, leapgate.Rules{Breaker: []breaker.Rule{
		{ID: "db-breaker", Resource: "db *", Match: rule.Glob, Consecutive: 10, OpenFor: time.Second, Probes: 1},
	}}, clock)
	for range 10 {
		require.EqualError(t, db.Ping(), "refused")
	}
	for range 10 {
		leapgatetest.RequireBlocked(t, db.Ping(), "db-breaker")
	}
	require.Equal(t, 10, f.asked("connect"))
	away = false
	clock.Advance(time.Second)
	require.NoError(t, db.Ping())
}

func TestConnector_ACallThatWaitsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		db, gate := open(t, f, leapgate.Rules{Flow: []flow.Rule{
			{ID: "paced", Resource: "db exec", Threshold: 1, Interval: 10 * time.Second, Behavior: flow.Pace, MaxWait: time.Minute},
		}}, nil)
		began := time.Now()
		for range 3 {
			_, err := db.ExecContext(t.Context(), "e")
			require.NoError(t, err)
		}
		require.Equal(t, 20*time.Second, time.Since(began))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := db.ExecContext(ctx, "e")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		require.Equal(t, 3, f.asked("exec"))
		require.Equal(t, [5]int64{3, 1, 0, 0, 0}, figures(gate, "exec"))
		require.Equal(t, 1, f.asked("connect"))
	})
}

func TestConnector_ManyStatementsAtOnce(t *testing.T) {
	t.Parallel()
	const goroutines, rounds, places = 32, 60, 4
	var inside, failed atomic.Int64
	f := &fake{fails: func(_ context.Context, what string) error {
		switch what {
		case "query":
			if inside.Inc() > places {
				t.Error("more rows are open than may be")
			}
		case "close rows":
			inside.Dec()
		case "exec":
			if failed.Inc()%3 == 0 {
				return errors.New("failed")
			}
		}
		return nil
	}}
	db, gate := open(t, f, leapgate.Rules{Isolation: []isolation.Rule{{Resource: "db query", MaxInFlight: places}}}, nil)
	var passed, blocked, exceptions atomic.Int64
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range rounds {
				if tx, err := db.Begin(); err == nil {
					if _, err := tx.Exec("e"); err != nil {
						exceptions.Inc()
					}
					_ = tx.Commit()
				}
				if err := db.QueryRow("q").Scan(new(int)); err == nil {
					passed.Inc()
				} else if errors.Is(err, leapgate.ErrBlocked) {
					blocked.Inc()
				}
			}
		})
	}
	all.Wait()
	const calls = goroutines * rounds
	require.EqualValues(t, calls, passed.Load()+blocked.Load())
	require.EqualValues(t, calls/3, exceptions.Load())
	require.Equal(t, [5]int64{passed.Load(), blocked.Load(), 0, 0, 0}, figures(gate, "query"))
	require.Equal(t, [5]int64{calls, 0, calls / 3, 0, 0}, figures(gate, "exec"))
	require.Equal(t, [5]int64{calls, 0, 0, 0, 0}, figures(gate, "begin"))
}
