package leapredis

import (
	"crypto/sha1" //nolint:gosec // it is how servers name scripts
	"embed"
	"encoding/hex"
	"strconv"
)

// script is the text of a script, and how servers call it.
type script struct{ text, sha string }

//go:embed scripts/*.lua
var scripts embed.FS

func newScript(name string) *script {
	text, err := scripts.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // it is not in this package
	}
	sum := sha1.Sum(text) //nolint:gosec // see above
	return &script{string(text), hex.EncodeToString(sum[:])}
}

var (
	counterScript       = newScript("counter")
	counterRefundScript = newScript("counter_refund")
	counterResetScript  = newScript("counter_reset")

	logScript       = newScript("log")
	logRefundScript = newScript("log_refund")
	logResetScript  = newScript("log_reset")

	burstScript = newScript("burst")

	inFlightScript = newScript("in_flight")
	releaseScript  = newScript("in_flight_release")
	renewScript    = newScript("in_flight_renew")

	instancesScript = newScript("instances")
	typeOfScript    = newScript("type_of")
)

// reply is what a script replied; what it left out is 0.
type reply [6]int64

// args are what a script is called with: no more than fit.
type args struct {
	values [3]string
	count  int
	admits bool // it is a question whether n pass, which is taken if they do
}

func (a *args) add(value string) {
	a.values[a.count] = value
	a.count++
}

func (a *args) addInt(value int64) { a.add(strconv.FormatInt(value, 10)) }

// asking makes the argument of the decision scripts. Most calls want one permit under the
// limit of the limiter.
type asking struct {
	length int64 // of a window, in µs
	usual  int64 // the limit that one is under
	one    string
}

func newAsking(cfg *Config) asking {
	a := asking{length: cfg.Window.Microseconds(), usual: cfg.Limit}
	a.one = a.pack(cfg.Limit, 1, 1)
	return a
}

func (a *asking) args(q *question) args {
	text := a.one
	if q.n != 1 || q.most != 1 || q.limit != a.usual {
		text = a.pack(q.limit, q.n, q.most)
	}
	return args{values: [3]string{text}, count: 1, admits: q.most >= q.n || q.most == takeSome}
}

const packed = 7 // bytes of a number

func (a *asking) pack(limit, n, most int64) string { return pack(limit, a.length, n, most) }

func pack(values ...int64) string {
	var room [9 * packed]byte
	all := room[:0]
	for _, value := range values {
		for shift := 8 * (packed - 1); shift >= 0; shift -= 8 {
			all = append(all, byte(value>>shift))
		}
	}
	return string(all)
}

const (
	// What the decision scripts take for the most that they may take.
	takeNothing = 0
	takeAnyway  = -1
	takeSome    = -2
	// And that of bursts alone, for what are scripts of their own with the others.
	refundIt = -3
	resetIt  = -4

	maxHeld     = 2 * MaxLimit // what a window is charged at most, with settlements
	microsecond = 1000         // in the nanoseconds that this process counts in
)
