package leapredis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leapgate-go/leapgate/limit"
)

// in is how servers end an error that occurs inside a script, at a line of it.
func in(s *script, line string) string {
	return " script: " + s.sha + ", on @user_script:" + line + "."
}

// lineOf is the line of a script that has this in it.
func lineOf(t *testing.T, s *script, what string) string {
	t.Helper()
	before, _, ok := strings.Cut(s.text, what)
	require.True(t, ok)
	return strconv.Itoa(strings.Count(before, "\n") + 1)
}

func TestFault_WhatErrorsAreAbout(t *testing.T) {
	t.Parallel()
	set := lineOf(t, counterScript, "call('SET',")
	for text, want := range map[string]fault{
		// Redis 7.0
		"ERR The user executing the script can't run this command or subcommand" + in(counterScript, set):                                      {about: aboutUser, denied: "the command SET"},
		"ERR The user executing the script can't run this command or subcommand" + in(counterScript, "999"):                                    {about: aboutUser, denied: "a command of a script"},
		"ERR The user executing the script can't run this command or subcommand" + in(counterScript, "x"):                                      {about: aboutUser, denied: "a command of a script"},
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" + in(counterScript, "21"): {about: aboutUser, denied: "access to keys of this prefix"},
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                                     {about: aboutUser, denied: "the command EVALSHA"},
		"NOPERM this user has no permissions to access one of the keys used as arguments":                                                      {about: aboutUser, denied: "access to keys of this prefix"},
		// Redis 7.2 and 8, Valkey
		"ERR ACL failure in script: User lim has no permissions to run the 'set' command" + in(counterScript, "1"):        {about: aboutUser, denied: "the command SET"},
		"ERR ACL failure in script: User lim has no permissions to run the 'config|get' command" + in(counterScript, "1"): {about: aboutUser, denied: "the command CONFIG|GET"},
		"ERR ACL failure in script: User lim has no permissions to access the 'secret' key" + in(counterScript, "1"):      {about: aboutUser, denied: "access to keys of this prefix"},
		"NOPERM ACL failure in script: No permissions to access a key" + in(counterScript, "1"):                           {about: aboutUser, denied: "access to keys of this prefix"},
		"NOPERM User lim has no permissions to run the '" + strings.Repeat("secret", 20) + "' command":                    {about: aboutUser, denied: "a command of a script"},
		"NOPERM": {about: aboutUser, denied: "a command of a script"},

		"WRONGTYPE Operation against a key holding the wrong kind of value" + in(counterScript, "24"): {about: aboutKey},
		"WRONGTYPE the key holds no counter": {about: aboutKey},
		"ERR user_script:26: bad argument #2 to 'unpack' (data string too short)" + in(counterScript, "26"): {about: aboutKey},
		"ERR invalid expire time in 'pexpire' command" + in(counterScript, "64"):                            {about: aboutKey},
		"ERR value is not an integer or out of range" + in(counterScript, "64"):                             {about: aboutKey},

		"ERR Unknown Redis command called from script" + in(counterScript, "64"):                                                 {},
		"ERR Unknown command called from script" + in(counterScript, "64"):                                                       {},
		"ERR This Redis command is not allowed from script" + in(counterScript, "64"):                                            {},
		"ERR Script attempted to access a non local key in a cluster node" + in(counterScript, "64"):                             {},
		"ERR Error compiling script (new function): user_script:1: malformed number near '2x' on @user_script:1":                 {},
		"ERR Error running script: user_script:12: Script killed by user with SCRIPT KILL." + in(counterScript, "12"):            {},
		"ERR unknown command 'EVALSHA', with args beginning with: 'a' '1' 'p:{} script: " + counterScript.sha + " acl failure' ": {},
		"OOM command not allowed when used memory > 'maxmemory'." + in(counterScript, "64"):                                      {about: aboutWrites},
		"NOREPLICAS Not enough good replicas to write." + in(counterScript, "64"):                                                {about: aboutWrites},
		"READONLY You can't write against a read only replica." + in(counterScript, "64"):                                        {about: aboutWrites},
		"LOADING Redis is loading the dataset in memory":                                                                         {}, "ERR max number of clients reached": {}, "": {},
	} {
		reply := &ReplyError{text}
		err := faultOf(counterScript, reply)
		want.reply, want.script = reply, counterScript
		require.Equal(t, &want, err)
		require.NotContains(t, loggable(err), "secret")
		var replied *ReplyError
		require.ErrorAs(t, err, &replied)
		require.Same(t, reply, replied)
	}
	require.Equal(t, errCut, faultOf(counterScript, errCut))
	require.NoError(t, faultOf(counterScript, nil))
}

// Where a server tells only the line, that is enough: no line of a script calls two commands.
func TestFault_EveryLineThatCallsNamesItsCommand(t *testing.T) {
	t.Parallel()
	for s, name := range scriptNames {
		for i, line := range strings.Split(s.text, "\n") {
			named := s.calls(i + 1)
			require.Len(t, named, strings.Count(line, "call('"), "%s:%d", name, i+1)
			require.LessOrEqual(t, len(named), 1, "%s:%d", name, i+1)
			for _, command := range named {
				require.True(t, isCommand(command), "%s:%d", name, i+1)
			}
		}
	}
}

// Whatever servers and clients say, a log gets little, and of it nothing that is not printed.
func TestFault_WhatIsLoggedIsPrintableAndShort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("NOPERM run the '"+strings.Repeat("a", 64)+"'")).Draw(t, "text")
		text = strings.Repeat(text, rapid.IntRange(1, 100).Draw(t, "times"))
		for _, err := range []error{errors.New(text), faultOf(counterScript, &ReplyError{text}), faultOf(counterScript, &ReplyError{"NOPERM " + text})} {
			said := loggable(err)
			require.LessOrEqual(t, len(said), 210)
			for _, r := range said {
				require.True(t, r >= ' ' && r <= '~')
			}
		}
	})
}

// deny makes some scripts fail as those do whose user may not run a command.
func deny(s *server, scripts ...*script) {
	s.fault = func(name string, before bool) error {
		for _, script := range scripts {
			if before && scriptNames[script] == name {
				return &ReplyError{"ERR ACL failure in script: User lim has no permissions to run the 'set' command" + in(script, "1")}
			}
		}
		return nil
	}
}

// What a server denies inside a script is denied for all keys: it counts as away. What is
// denied is logged once, also if other calls go on passing.
func TestDenied_ACommandOfAScript(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		deny(s, counterScript, logScript, burstScript)
		var log logs
		l := k.start(t, s, Config{Limit: 3, WhenAway: Deny, Logger: log.logger()})
		for range 20 {
			d := allow(t, l, "a", 1)
			require.True(t, d.Degraded)
			require.GreaterOrEqual(t, d.RetryAfter, minRetry)
		}
		require.Equal(t, Open, l.Link().State)
		require.Equal(t, 1, log.count("the server denies what decisions need"))
		require.Equal(t, 1, log.count(`denied="the command SET"`))
		require.Equal(t, 1, log.count(`the server is away" limiter="" error="the server denies the command SET"`), log.String())
		time.Sleep(2 * complainEvery)
		allow(t, l, "a", 1)
		require.Equal(t, 2, log.count("the server denies what decisions need"))
	})
}

// What a server denies to the scripts of one limiter takes no other along that shares the client,
// and the server is asked again a few times a second.
func TestDenied_TakesNoOtherLimiterAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		deny(s, logScript)
		var log logs
		k := kind{t: t, make: makeLog}
		denied := k.start(t, s, Config{Prefix: "denied:", Limit: 1000, WhenAway: Deny, Logger: log.logger()})
		k.make = makeCounter
		other := k.start(t, s, Config{Prefix: "other:", Limit: 1000, WhenAway: Deny})
		for i := range 1000 {
			d := allow(t, denied, "a", 1)
			require.True(t, d.Degraded)
			require.GreaterOrEqual(t, d.RetryAfter, minRetry)
			if i%10 == 0 {
				require.False(t, allow(t, other, "a", 1).Degraded)
			}
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, Open, denied.Link().State)
		require.Equal(t, 1, denied.Link().Away)
		require.True(t, denied.Stats().Away)
		require.EqualValues(t, 1, denied.Link().Openings)
		require.LessOrEqual(t, denied.Link().RoundTrips, int64(failuresToOpen+5))
		require.Equal(t, Closed, other.Link().State)
		require.Zero(t, other.Link().Openings)
		require.False(t, other.Stats().Away)

		s.fault = nil
		time.Sleep(retryTime)
		require.False(t, allow(t, denied, "a", 1).Degraded)
		require.Equal(t, Closed, denied.Link().State)
		require.Equal(t, 1, log.count("the server is away"), log.String())
		require.Equal(t, 1, log.count("the server is back"), log.String())
	})
}

// A server that hangs while it is looked whether it denies something yet is found out, and then
// it is looked again.
func TestDenied_AndThenTheServerHangs(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		deny(s, counterScript, logScript, burstScript)
		l := k.start(t, s, Config{Limit: 1000})
		ask := func() {
			require.True(t, allow(t, l, "a", 1).Degraded)
			time.Sleep(retryTime)
		}
		for range 2 * failuresToOpen {
			ask()
		}
		s.fault = nil
		s.latency.set(2 * DefaultTimeout)
		for range 2 * failuresToOpen {
			ask()
		}
		require.Equal(t, 1, l.Link().Away)
		s.latency.set(0)
		for range 2 {
			allow(t, l, "a", 1)
			time.Sleep(retryTime)
		}
		require.False(t, allow(t, l, "a", 1).Degraded)
		require.Zero(t, l.Link().Away)
	})
}

// A caller that waits for a limit that cannot be had asks a few times a second, whatever the
// reason.
func TestDeny_AWaitIsNoFlood(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"denied": "NOPERM no", "foreign": "WRONGTYPE no", "unreadable": "ERR no" + in(counterScript, "1"), "away": "LOADING no",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(k kind) {
				t := k.t
				var calls atomic.Int64
				l := k.start(t, strange(func() ([]int64, error) {
					calls.Add(1)
					return nil, &ReplyError{text}
				}), Config{Limit: 3, WhenAway: Deny})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				d, err := limit.All(l).Wait(ctx, "a", 1)
				require.True(t, err == nil || errors.Is(err, context.DeadlineExceeded))
				require.False(t, d.Allowed)
				synctest.Wait()
				require.LessOrEqual(t, calls.Load(), int64(15))
			})
		})
	}
}

// A heartbeat that is denied says so, and nothing else suffers from it.
func TestDenied_TheHeartbeat(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		deny(s, instancesScript)
		var log logs
		l := k.start(t, s, Config{Limit: 1000, Instances: count, Logger: log.logger()})
		for range 100 {
			require.False(t, allow(t, l, "a", 1).Degraded)
			time.Sleep(beatEvery)
		}
		require.Equal(t, 1, log.count("the processes that share the limit are not counted"), log.String())
		require.Equal(t, 1, log.count(`denied="the command SET"`))
		require.Zero(t, l.Link().Openings)
		require.EqualValues(t, AssumedInstances, l.Link().Instances)
	})
}

// The key of the heartbeat may be another's, too.
func TestWrongType_OfTheHeartbeatsKey(t *testing.T) {
	t.Parallel()
	each(t, func(k kind) {
		t := k.t
		s := newServer()
		s.fault = func(name string, _ bool) error {
			if name == "instances" {
				return &ReplyError{"WRONGTYPE Operation against a key holding the wrong kind of value"}
			}
			return nil
		}
		var log logs
		l := k.start(t, s, Config{Limit: 1000, Instances: count, Logger: log.logger()})
		for range 20 {
			require.False(t, allow(t, l, "a", 1).Degraded)
			time.Sleep(beatEvery)
		}
		require.Equal(t, 1, log.count("the key that counts the processes is used by another"), log.String())
	})
}

// However many different things go wrong, it is remembered of few that they were logged.
func TestComplaints_AreFew(t *testing.T) {
	t.Parallel()
	var c complaints
	logged := 0
	for i := range 1000 {
		if c.due(strconv.Itoa(i), int64(i)) {
			logged++
		}
	}
	require.Equal(t, maxCauses, logged)
	require.False(t, c.due("0", 1000))
	require.True(t, c.due("0", int64(complainEvery)))
}
