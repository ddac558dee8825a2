//go:build e2e

package e2e

import (
	"errors"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// protectEcho makes a middleware of echo of what leaphttp.New returns.
func protectEcho(protect func(http.Handler) http.Handler) echo.MiddlewareFunc {
	wrap := echo.WrapMiddleware(protect) // which sets the route and its parameters as Request.Pattern and PathValue
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return wrap(func(c *echo.Context) error {
			if err := next(c); err != nil {
				c.Echo().HTTPErrorHandler(c, err) // now, so that its answer is seen
			}
			return nil
		})
	}
}

var onEcho = framework{"GET /orders/:id", "POST /api/items", func(cfg *leaphttp.Config, entered func(string)) http.Handler {
	e := echo.New()
	answer := e.HTTPErrorHandler
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		if errors.Is(err, errMissing) {
			err = echo.ErrNotFound
		}
		answer(c, err)
	}
	e.Use(middleware.Recover())
	if cfg != nil {
		e.Use(protectEcho(leaphttp.Must(*cfg)))
	}
	handle := func(answer echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			entered(c.Request().URL.Path)
			return answer(c)
		}
	}
	e.GET("/orders/:id", handle(func(c *echo.Context) error { return c.String(http.StatusOK, c.Param("id")) }))
	e.Group("/api").POST("/items", handle(func(c *echo.Context) error { return c.NoContent(http.StatusCreated) }))
	e.GET("/missing", handle(func(*echo.Context) error { return errMissing }))
	e.GET("/broken", handle(func(*echo.Context) error { return errBroken }))
	e.GET("/panics", handle(func(*echo.Context) error { panic("on purpose") }))
	e.GET("/free", handle(func(c *echo.Context) error {
		_, _ = leaphttp.Refund(c.Response())
		return c.String(http.StatusOK, "free")
	}))
	e.GET("/hangs", handle(func(c *echo.Context) error {
		<-c.Request().Context().Done()
		return c.NoContent(http.StatusInternalServerError)
	}))
	return e
}}

func TestEcho_Page(t *testing.T) {
	t.Parallel()
	onEcho.test(t)
}

// TestEcho_ErrorsOfAllTypes: what counts is the status that the error handler answers with,
// and it answers once.
func TestEcho_ErrorsOfAllTypes(t *testing.T) {
	t.Parallel()
	gate := leapgate.Must(leapgate.Config{})
	e := echo.New()
	answers, answer := 0, e.HTTPErrorHandler
	e.HTTPErrorHandler = func(c *echo.Context, err error) { answers++; answer(c, err) }
	e.Use(protectEcho(leaphttp.Must(leaphttp.Config{Gate: gate})), middleware.Recover())
	e.GET("/http", func(*echo.Context) error { return echo.NewHTTPError(http.StatusBadGateway, "no backend") })
	e.GET("/client", func(*echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "no") })
	e.GET("/begun", func(c *echo.Context) error {
		_ = c.String(http.StatusOK, "the answer has begun")
		return errBroken
	})
	e.GET("/panics", func(*echo.Context) error { panic("on purpose") })
	e.POST("/post", func(*echo.Context) error { return nil })
	server := start(t, e)
	for path, want := range map[string]int{"/http": 502, "/client": 418, "/begun": 200, "/panics": 500, "/post": 405} {
		status, _, _ := get(t, server.Client(), server.URL+path)
		require.Equal(t, want, status, path)
	}
	require.Equal(t, 5, answers)
	for name, exceptions := range map[string]int64{"GET /http": 1, "GET /client": 0, "GET /begun": 0, "GET /panics": 1, "GET /post": 0} {
		require.EqualValues(t, 1, of(gate, name).Success, name)
		require.Equal(t, exceptions, of(gate, name).Exception, name)
	}
}
