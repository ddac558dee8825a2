package docs_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/breaker"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/leapsql"
	"github.com/leapgate-go/leapgate/rule"
)

// newShopGate returns a gate with three rules on two resources. Close it when the program ends.
func newShopGate() (*leapgate.Gate, error) {
	gate, err := leapgate.New(leapgate.Config{})
	if err != nil {
		return nil, err
	}
	return gate, gate.LoadFlowRules([]flow.Rule{
		{ID: "orders-qps", Resource: "GET /orders", Threshold: 100},
		{ID: "orders-day", Resource: "GET /orders", Threshold: 1e6, Interval: 24 * time.Hour, Buckets: 24},
		{ID: "search-try", Resource: "GET /search", Threshold: 20, Mode: rule.Shadow},
	})
}

// waitAfter returns how long the caller of a refused call should wait; 0 if that is not known.
func waitAfter(err error) time.Duration {
	var blocked *leapgate.BlockError
	if errors.As(err, &blocked) {
		return blocked.RetryAfter
	}
	return 0
}

// guarded opens a database with a breaker in front of it.
func guarded(gate *leapgate.Gate, d driver.DriverContext, dsn string) (*sql.DB, error) {
	err := gate.EditRules(func(rules *leapgate.Rules) error {
		rules.Breaker = append(rules.Breaker, breaker.Rule{
			ID: "orders-db", Resource: "orders-db *", Match: rule.Glob,
			ErrorRatio: 0.5, SlowRatio: 0.5, SlowAfter: time.Second,
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	connector, err := d.OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	protected, err := leapsql.New(connector, leapsql.Config{Gate: gate, Resource: "orders-db"})
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(protected), nil
}

func TestGates_RefusalsSayHowLongToWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate, err := newShopGate()
		require.NoError(t, err)
		defer gate.Close()
		query := func(context.Context) error { return nil }
		require.NoError(t, gate.Do(t.Context(), "GET /orders", query, leapgate.WithCount(100)))
		err = gate.Do(t.Context(), "GET /orders", query)
		require.ErrorIs(t, err, leapgate.ErrBlocked)
		time.Sleep(waitAfter(err))
		require.NoError(t, gate.Do(t.Context(), "GET /orders", query))
	})
}

// down is a driver whose database is away.
type down struct{}

func (d down) OpenConnector(string) (driver.Connector, error) { return d, nil }
func (d down) Connect(context.Context) (driver.Conn, error) {
	return nil, errors.New("no route to the database")
}
func (d down) Driver() driver.Driver            { return d }
func (d down) Open(string) (driver.Conn, error) { return d.Connect(context.Background()) }

func TestGates_ABreakerStopsCallsToADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	gate, err := newShopGate()
	require.NoError(t, err)
	defer gate.Close()
	db, err := guarded(gate, down{}, "")
	require.NoError(t, err)
	defer db.Close()
	for range 10 {
		require.EqualError(t, db.PingContext(t.Context()), "no route to the database")
	}
	require.ErrorIs(t, db.PingContext(t.Context()), leapgate.ErrBlocked)
	require.Len(t, gate.FlowRules(), 3, "the other rules stay")
}
