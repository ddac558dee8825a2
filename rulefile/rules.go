package rulefile

import "github.com/leapgate-go/leapgate"

// Rules is what a rule file says: as written, without defaults filled in, and with empty
// Sources. It is a plain value.
type Rules leapgate.Rules

// Len is how many rules there are.
func (r Rules) Len() int { return leapgate.Rules(r).Len() }
