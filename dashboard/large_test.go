package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/atomic"

	"github.com/leapgate-go/leapgate/dashboard"
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/gatetest/gates"
)

// stuck is the writer of a client that never reads: a write fails at its deadline.
type stuck struct {
	http.ResponseWriter
	deadline time.Time
	writing  *atomic.Int64
}

func (s *stuck) SetWriteDeadline(deadline time.Time) error {
	s.deadline = deadline
	return nil
}

func (s *stuck) Write([]byte) (int, error) {
	s.writing.Inc()
	defer s.writing.Dec()
	time.Sleep(time.Until(s.deadline))
	return 0, os.ErrDeadlineExceeded
}

// Answers that hold figures of everything are made for a few clients at a time, whether these read or not.
func TestLargeAnswers_AreMadeForAFewAtATime(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"resources", "minute", "rules", "bound?kind=flow&id=a"} {
		synctest.Test(t, func(t *testing.T) {
			d := dashboard.Handler(gates.New(t, gatetest.ClockAt(start), flow.Rule{ID: "a", Resource: "a"}), dashboard.Config{KeepHistory: true})
			defer func() { _ = d.Close() }()
			var writing atomic.Int64
			var clients sync.WaitGroup
			for range 60 {
				clients.Go(func() {
					r := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/"+path, http.NoBody)
					d.ServeHTTP(&stuck{ResponseWriter: httptest.NewRecorder(), writing: &writing}, r)
				})
			}
			synctest.Wait()
			require.EqualValues(t, 4, writing.Load(), path)
			require.Equal(t, http.StatusOK, fetch(d, http.MethodGet, "/api/v1/about").Code)
			clients.Wait() // each is given up at its deadline
			require.Equal(t, http.StatusOK, fetch(d, http.MethodGet, "/api/v1/resources").Code)
		})
	}
}
