package limit

import (
	"time"

	"github.com/leapgate-go/leapgate/internal/keys"
)

// outcome is what came of the search for a place.
type outcome uint8

const (
	isUnknown outcome = iota // the key holds nothing, and was not to be made
	isMade
	isFound   // somebody else has made it
	isCrowded // there is no place
)

// place finds or makes the node of a key that was not found, or was dead. If made, it is
// charged with n, and begins at begun. If it is not wanted, it only says whether there would
// be a place.
func place[V any](t *keys.Table[V], whenFull Policy, hash uint64, key string, now, n int64, wanted bool) (node *keys.Node[V], begun int64, o outcome) {
	if !wanted {
		if whenFull != Evict && !t.Room(hash, now) {
			return nil, 0, isCrowded
		}
		return nil, 0, isUnknown
	}
	node, begun, made := t.Place(hash, key, now, n)
	switch {
	case made:
		return node, begun, isMade
	case node != nil:
		return node, 0, isFound
	default:
		return nil, 0, isCrowded
	}
}

// charge charges a key whatever its limit, by add, which is false if the node is dead. A key
// without a place is charged to shared, with Share, and else not at all.
func charge[V any](t *keys.Table[V], whenFull Policy, shared *keys.Node[V], key string, now, n int64, add func(*keys.Node[V]) bool) {
	hash := t.Hash(key)
	for node := t.Find(hash, key); ; node = nil {
		if node == nil {
			placed, _, outcome := place(t, whenFull, hash, key, now, n, true)
			switch {
			case outcome == isMade:
				return
			case outcome == isFound:
				node = placed
			case whenFull == Share:
				node = shared
			default:
				return // nothing is counted for this key
			}
		}
		if add(node) {
			return
		}
	}
}

func statsOf[V any](t *keys.Table[V], crowds int64) Stats {
	return Stats{Keys: t.Len(), MaxKeys: t.Max(), Expired: t.Expired(), Evicted: t.Evicted(), Crowded: crowds}
}

// unknown is the decision about a key that holds nothing, when nothing is taken.
func unknown(limit, n int64) Decision {
	if n > limit {
		return Decision{Limit: limit, Remaining: limit, RetryAfter: Never}
	}
	return Decision{Allowed: true, Limit: limit, Remaining: limit}
}

// crowdedOut is the decision that refuses a new key for want of a place. After forgets,
// nothing of what is there now will be left.
func crowdedOut(limit, n, forgets int64) Decision {
	d := Decision{Limit: limit, Crowded: true, RetryAfter: Never}
	if n <= limit {
		d.RetryAfter, d.Unavailable = time.Duration(forgets), true
	}
	return d
}
