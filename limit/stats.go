package limit

// Stats is the figures of a limiter.
type Stats struct {
	// Calls of AllowN and the like, by their answers; those of a Wait count once.
	Allowed int64
	Refused int64
	// WouldRefuse is how many of Allowed were so only because of mode Shadow.
	WouldRefuse int64
	// Degraded is how many of them were answered without the state that is shared with
	// other processes. Away is set if that cannot be reached now. NoShare is set if
	// this process would refuse all then, since more processes share the limit than it
	// has permits: see leapredis.Local. Limiters that share nothing have 0 and false.
	Degraded int64
	Away     bool
	NoShare  bool

	// InFlight is how many places of an [InFlight] are taken now; other limiters have 0.
	InFlight int64

	Keys    int // that are kept now, expired ones that were not cleared away included
	MaxKeys int

	// Since the limiter was made:
	Expired int64 // keys cleared away that held nothing any more
	Evicted int64 // keys that were forgotten although they held something: see [Evict]
	Crowded int64 // calls of new keys for which there was no room: see [Deny] and [Share]

	// Bytes is the memory in which [NewLog] and [NewBucketed] keep times, besides the first
	// four of each key; at most Config.MaxBytes. Coarse is how many times were joined
	// with the next because MaxBytes was used up. Both are 0 with [NewCounter].
	Bytes  int64
	Coarse int64
}
