package leapredis

import (
	"context"
	"errors"
)

// Client runs scripts on the servers. It is small, so that any client library fits: see
// the packages viarueidis and viagoredis. Both methods may be called by any number of
// goroutines at once. A Client that can name its servers is a [Locator] as well.
//
// A script must not be sent a second time when it is not known whether the first was
// executed: it counts. What the server answers without executing anything, such as a
// redirection in a Cluster, is for the client to follow.
//
// Limiters share what they know of the servers if their Clients are equal by ==, and so are
// their timeouts. Clients of a type that cannot be compared share nothing.
type Client interface {
	// EvalSHA runs the script with this SHA-1 on the server that keeps key, which is
	// KEYS[1], with ARGV args. The reply is an array of integers. args must not be kept.
	EvalSHA(ctx context.Context, sha, key string, args ...string) ([]int64, error)
	// Eval runs the script of this text, and the server then knows it.
	Eval(ctx context.Context, script, key string, args ...string) ([]int64, error)
}

// Locator is a [Client] that names the servers of a Cluster, so that a server that is away does
// not affect the keys of the others. Without names, all keys of a client share one breaker.
type Locator interface {
	Client
	// Node returns the name of the server that keeps key now, such as its address, or "" if that
	// is not known. It is called before each script once a script was answered. It must not
	// block.
	Node(key string) string
}

// IdleChecker is a [Client] with a pool of connections, of which the idle ones may have died
// without notice, for example because a firewall has dropped its state.
type IdleChecker interface {
	Client
	// CheckIdle is called when a call for key was not answered in time. It starts to close the
	// idle connections to the server of key that do not answer. It must not block.
	CheckIdle(key string)
}

// ReplyError is an error that a server replied, such as "NOSCRIPT No matching script".
// An adapter returns those as *ReplyError. Any other error means that no server could be
// reached, or that its answer is unknown.
type ReplyError struct {
	Text string // as the server wrote it, without the "-"
}

// Error is the text.
func (e *ReplyError) Error() string { return "leapredis: the server replied: " + e.Text }

// replyOf is the server's reply that an error is, nil if it is none.
func replyOf(err error) *ReplyError {
	if err == nil {
		return nil
	}
	var replied *ReplyError
	errors.As(err, &replied)
	return replied
}
