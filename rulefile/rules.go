package rulefile

import (
	"github.com/leapgate-go/leapgate/flow"
	"github.com/leapgate-go/leapgate/isolation"
)

// Rules is what a rule file says: as written, without defaults filled in, and with empty
// Sources. It is a plain value.
type Rules struct {
	Flow      []flow.Rule
	Isolation []isolation.Rule
}

// Len is how many rules there are.
func (r Rules) Len() int { return len(r.Flow) + len(r.Isolation) }
