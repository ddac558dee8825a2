//go:build e2e

package e2e

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/leaphttp"
)

// protectGin makes a middleware of gin of what leaphttp.New returns.
func protectGin(protect func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		c.Request.Pattern = c.FullPath() // the route, for Config.Gate
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value) // for Config.Args
		}
		passed := false
		protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			passed = true
			c.Writer, c.Request = ginWriter{c.Writer, w}, r
			c.Next()
			w.WriteHeader(c.Writer.Status()) // for the gate: gin has it already
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}

// ginWriter leads leaphttp.Settle, Refund and SetError from a handler to its middleware.
type ginWriter struct {
	gin.ResponseWriter
	outer http.ResponseWriter
}

func (w ginWriter) Unwrap() http.ResponseWriter { return w.outer }

var onGin = framework{"GET /orders/:id", "POST /api/items", func(cfg *leaphttp.Config, entered func(string)) http.Handler {
	r := gin.New()
	r.Use(gin.RecoveryWithWriter(io.Discard))
	if cfg != nil {
		r.Use(protectGin(leaphttp.Must(*cfg)))
	}
	r.Use(func(c *gin.Context) { // answers what handlers tell with c.Error
		c.Next()
		if len(c.Errors) > 0 && !c.Writer.Written() {
			status := http.StatusInternalServerError
			if errors.Is(c.Errors.Last(), errMissing) {
				status = http.StatusNotFound
			}
			c.JSON(status, gin.H{"error": c.Errors.Last().Error()})
		}
	})
	handle := func(answer gin.HandlerFunc) gin.HandlerFunc {
		return func(c *gin.Context) {
			entered(c.Request.URL.Path)
			answer(c)
		}
	}
	r.GET("/orders/:id", handle(func(c *gin.Context) { c.String(http.StatusOK, c.Param("id")) }))
	r.Group("/api").POST("/items", handle(func(c *gin.Context) { c.Status(http.StatusCreated) }))
	r.GET("/missing", handle(func(c *gin.Context) { _ = c.Error(errMissing) }))
	r.GET("/broken", handle(func(c *gin.Context) { _ = c.Error(errBroken) }))
	r.GET("/panics", handle(func(*gin.Context) { panic("on purpose") }))
	r.GET("/free", handle(func(c *gin.Context) {
		_, _ = leaphttp.Refund(c.Writer)
		c.String(http.StatusOK, "free")
	}))
	r.GET("/hangs", handle(func(c *gin.Context) {
		<-c.Request.Context().Done()
		c.Status(http.StatusInternalServerError)
	}))
	return r
}}

func TestGin_Page(t *testing.T) {
	gin.SetMode(gin.TestMode)
	onGin.test(t)
}

// TestGin_StatusWithoutBody: the status of a handler that writes nothing more is seen.
func TestGin_StatusWithoutBody(t *testing.T) {
	gin.SetMode(gin.TestMode)
	gate := leapgate.Must(leapgate.Config{})
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(protectGin(leaphttp.Must(leaphttp.Config{Gate: gate})))
	r.GET("/aborted", func(c *gin.Context) { c.AbortWithStatus(http.StatusBadGateway) })
	r.GET("/status", func(c *gin.Context) { c.Status(http.StatusServiceUnavailable) })
	r.GET("/bad", func(c *gin.Context) { _ = c.AbortWithError(http.StatusBadRequest, errMissing) })
	r.POST("/post", func(*gin.Context) {})
	server := start(t, r)
	for path, want := range map[string]int{"/aborted": 502, "/status": 503, "/bad": 400, "/post": 405} {
		status, _, _ := get(t, server.Client(), server.URL+path)
		require.Equal(t, want, status, path)
		name := "GET " + path
		if path == "/post" {
			name = "GET (unmatched)"
		}
		require.EqualValues(t, 1, of(gate, name).Success, path)
		require.Equal(t, want >= 500, of(gate, name).Exception == 1, path)
	}
}

// TestGin_StreamInsideAHandler: Stream needs http.CloseNotifier of the writer around the engine.
func TestGin_StreamInsideAHandler(t *testing.T) {
	gin.SetMode(gin.TestMode)
	r := gin.New()
	r.GET("/stream", func(c *gin.Context) {
		left := 3
		c.Stream(func(w io.Writer) bool {
			_, _ = io.WriteString(w, "x")
			left--
			return left > 0
		})
	})
	server := start(t, leaphttp.Handler(r, leaphttp.Config{Gate: leapgate.Must(leapgate.Config{})}))
	status, _, body := get(t, server.Client(), server.URL+"/stream")
	require.Equal(t, 200, status)
	require.Equal(t, "xxx", body)
}
