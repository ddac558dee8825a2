package docs_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/leaphttp"
	"github.com/leapgate-go/leapgate/limit"
	"github.com/leapgate-go/leapgate/rulefile"
)

// perMinute is how many requests a tenant has, by plan.
var perMinute = map[string]int64{"free": 60, "team": 600, "partner": limit.Exempt, "suspended": 0}

// plans limits each tenant by its plan. planOf returns the plan of a tenant, as it is now; it
// is asked with each request. tenantOf is the tenant that the authentication in front has
// found.
func plans(planOf func(tenant string) string, tenantOf func(context.Context) string) (func(http.Handler) http.Handler, error) {
	perTenant, err := limit.NewCounter(limit.Config{
		Name:     "plan",
		Window:   time.Minute,
		Limit:    60,  // of a tenant without a plan
		MaxLimit: 600, // of all plans
		LimitFor: func(tenant string) int64 {
			if n, ok := perMinute[planOf(tenant)]; ok {
				return n
			}
			return limit.Default
		},
	})
	if err != nil {
		return nil, err
	}
	return leaphttp.New(leaphttp.Config{Limits: []leaphttp.Limit{{
		Limiter: perTenant,
		Key:     leaphttp.FromContext(tenantOf),
	}}})
}

// plansFromFile limits each tenant by what a file says, which may change while the program
// runs. It watches the file until the watcher is closed.
func plansFromFile(path string, tenantOf func(context.Context) string) (func(http.Handler) http.Handler, *rulefile.Watcher, error) {
	perTenant, err := limit.NewCounter(limit.Config{
		Name:     "per-tenant",
		Window:   time.Minute,
		Limit:    60,        // of a tenant without a plan, if the file does not say
		MaxLimit: 1_000_000, // as far as the file may go
	})
	if err != nil {
		return nil, nil, err
	}
	watcher, err := rulefile.Watch(rulefile.Config{
		Path:   path,
		Limits: map[string]rulefile.Limiter{"per-tenant": perTenant}, // and Gate, if there are rules
	})
	if err != nil {
		return nil, nil, err
	}
	protect, err := leaphttp.New(leaphttp.Config{Limits: []leaphttp.Limit{{
		Limiter: perTenant,
		Key:     leaphttp.FromContext(tenantOf),
	}}})
	return protect, watcher, err
}

type tenantKey struct{}

func tenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}

// authenticated is what stands in front: the header is believed, for a test.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, r.Header.Get("Tenant"))))
	})
}

// tenants is the table of plans of a program.
type tenants struct{ plans sync.Map }

func (s *tenants) planOf(tenant string) string {
	plan, _ := s.plans.Load(tenant)
	text, _ := plan.(string)
	return text
}

// No time passes in these tests, since there are connections: the edge of a minute would let in
// more.
func TestPlans_EachTenantHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var table tenants
		for tenant, plan := range map[string]string{"small": "free", "big": "team", "friend": "partner", "gone": "suspended", "odd": "no such plan"} {
			table.plans.Store(tenant, plan)
		}
		protect, err := plans(table.planOf, tenantOf)
		require.NoError(t, err)
		server := start(t, authenticated(protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
		for tenant, want := range map[string]int{"small": 60, "big": 600, "gone": 0, "odd": 60, "": 60} {
			for i := range want {
				require.Equal(t, 200, as(t, server, tenant).StatusCode, "%s %d", tenant, i)
			}
			require.Equal(t, 429, as(t, server, tenant).StatusCode, tenant)
		}
		for range 700 {
			require.Equal(t, 200, as(t, server, "friend").StatusCode)
		}
		require.Equal(t, `"plan";q=600;w=60`, as(t, server, "big").Header.Get("RateLimit-Policy"))
		require.Equal(t, `"plan";q=60;w=60`, as(t, server, "small").Header.Get("RateLimit-Policy"))
		require.Empty(t, as(t, server, "gone").Header.Get("Retry-After"), "no wait would help")

		// A plan that changes holds from the next request on, and what was used stays used.
		table.plans.Store("small", "team")
		for range 540 {
			require.Equal(t, 200, as(t, server, "small").StatusCode)
		}
		require.Equal(t, 429, as(t, server, "small").StatusCode)
	})
}

func TestPlans_FromAFileThatChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
		page, err := os.ReadFile("plans.md")
		require.NoError(t, err)
		_, text, _ := strings.Cut(string(page), "```yaml\n")
		text, _, _ = strings.Cut(text, "```")
		write(text)
		protect, watcher, err := plansFromFile(path, tenantOf)
		require.NoError(t, err)
		defer watcher.Close()
		server := start(t, authenticated(protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
		served := func(tenant string, tries int) (n int) {
			for range tries {
				if as(t, server, tenant).StatusCode == 200 {
					n++
				}
			}
			return n
		}
		for tenant, want := range map[string]int{"acme": 600, "any": 60, "partner": 700, "suspended": 0} {
			require.Equal(t, want, served(tenant, 700), tenant)
		}
		write(strings.Replace(text, "acme: 600", "acme: 650", 1))
		require.NoError(t, watcher.Reload()) // it would come by itself
		require.Equal(t, `"per-tenant";q=650;w=60`, as(t, server, "acme").Header.Get("RateLimit-Policy"))
		require.Equal(t, 49, served("acme", 100))

		write(strings.Replace(text, "acme: 600", "acme: 2_000_000", 1))
		require.Error(t, watcher.Reload())
		write(strings.Replace(text, "acme: 600", "acme: 2000000", 1))
		require.ErrorContains(t, watcher.Reload(), `the plan of "acme" is 2000000; want at most 1000000`)
		require.Equal(t, 0, served("acme", 5))
	})
}

func TestPlans_ATenantThatSendsAtOnceHasNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		protect, err := plans(func(string) string { return "free" }, tenantOf)
		require.NoError(t, err)
		var served atomic.Int64
		server := start(t, authenticated(protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))))
		gatetest.AtOnce(16, func(int) {
			for range 10 {
				as(t, server, "acme")
			}
		})
		require.EqualValues(t, 60, served.Load())
	})
}
