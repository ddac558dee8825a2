package leapredis

import (
	"crypto/sha1" //nolint:gosec // it is how servers name scripts
	_ "embed"     // the scripts
	"encoding/hex"
	"strconv"
)

// script is the text of a script, and how servers call it.
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return &script{text, hex.EncodeToString(sum[:])}
}

var (
	//go:embed scripts/counter.lua
	counterText   string
	counterScript = newScript(counterText)
	//go:embed scripts/counter_refund.lua
	counterRefundText   string
	counterRefundScript = newScript(counterRefundText)
	//go:embed scripts/counter_reset.lua
	counterResetText   string
	counterResetScript = newScript(counterResetText)

	//go:embed scripts/log_sorted.lua
	sortedText   string
	sortedScript = newScript(sortedText)
	//go:embed scripts/log_sorted_refund.lua
	sortedRefundText   string
	sortedRefundScript = newScript(sortedRefundText)
	//go:embed scripts/log_fields.lua
	fieldsText   string
	fieldsScript = newScript(fieldsText)
	//go:embed scripts/log_fields_refund.lua
	fieldsRefundText   string
	fieldsRefundScript = newScript(fieldsRefundText)
	//go:embed scripts/log_reset.lua
	logResetText   string
	logResetScript = newScript(logResetText)
	//go:embed scripts/has_field_expiry.lua
	hasFieldExpiryText   string
	hasFieldExpiryScript = newScript(hasFieldExpiryText)

	//go:embed scripts/instances.lua
	instancesText   string
	instancesScript = newScript(instancesText)
)

// reply is what a script replied; what it left out is 0.
type reply [6]int64

// args are what a script is called with: no more than fit.
type args struct {
	values [4]string
	count  int
}

func (a *args) add(value string) {
	a.values[a.count] = value
	a.count++
}

func (a *args) addInt(value int64) { a.add(strconv.FormatInt(value, 10)) }

// What the decision scripts take for the most that they may take.
const (
	takeNothing  = 0
	takeAnyway   = -1
	mostHeld     = 2 * MaxLimit // what a window is charged at most, with settlements
	microsecond  = 1000         // in the nanoseconds that this process counts in
	generationAt = 45           // see ticket
)
