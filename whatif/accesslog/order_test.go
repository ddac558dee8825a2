package accesslog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The order of the lines does not matter, however many of them stand before earlier ones.
func TestRequests_AreTheSameInAnyOrderOfTheLines(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 5000 {
		lines = append(lines, combined(i*97/3, fmt.Sprint("c", i%7), "/"))
	}
	shuffled := slices.Clone(lines)
	random := rand.New(rand.NewPCG(5, 6))
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	backwards := slices.Clone(lines)
	slices.Reverse(backwards)
	var hosts []string // two, of which one is an hour behind
	for i := range 2500 {
		hosts = append(hosts, lines[2500+i], lines[i])
	}
	want := all(t, mustOpen(t, Options{}, logFile(t, strings.Join(lines, ""))))
	require.Len(t, want, 5000)
	for name, order := range map[string][]string{"shuffled": shuffled, "backwards": backwards, "two hosts": hosts} {
		log := mustOpen(t, Options{}, logFile(t, strings.Join(order, "")))
		require.Equal(t, want, all(t, log), name)
		require.Equal(t, want, all(t, log), "and again")
	}
}

func TestRequests_OfCallsThatTookHours(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 60 {
		text.WriteString(slow(60*i, "a", 0.001))
	}
	text.WriteString(slow(3600, "export", 3599.5))
	requests := all(t, mustOpen(t, Options{}, logFile(t, text.String())))
	require.Equal(t, []string{"-0.001 a", "0.5 export", "59.999 a"}, brief(requests[:3]))
	require.Equal(t, 3599500*time.Millisecond, requests[1].Duration)
}

// The coarsest times of all files count: what is said of limits for some seconds must hold for all.
func TestSeen_StepIsThatOfTheCoarsestFile(t *testing.T) {
	t.Parallel()
	coarse := logFile(t, combined(1, "a", "/")+combined(2, "a", "/"))
	fine := logFile(t, `{"ts":1716163218.25,"msg":"handled request","request":{"uri":"/","method":"GET","remote_ip":"192.0.2.1"},"duration":0.1,"status":200}`+"\n")
	empty := logFile(t, "")
	seen := mustOpen(t, Options{}, fine, coarse, empty).Seen()
	require.Equal(t, time.Second, seen.Step)
	require.Equal(t, time.Millisecond, mustOpen(t, Options{}, fine).Seen().Step)
}

// How exact a time is does not depend on how exact durations are.
func TestSeen_StepIsThatOfTheTimesInTheLog(t *testing.T) {
	t.Parallel()
	const line = `[2024-05-20T00:00:%02dZ] "GET /a HTTP/1.1" 200 %d` + "\n"
	for _, format := range []string{`[$start_time] "$request" $status $duration`, `[$time_iso8601] "$request" $status $duration`} {
		f, err := Template(format)
		require.NoError(t, err)
		log := mustOpen(t, Options{Format: f}, logFile(t, fmt.Sprintf(line, 1, 35)+fmt.Sprintf(line, 2, 17)))
		require.Equal(t, time.Second, log.Seen().Step, format)
	}
}

func TestSeen_DurationsThatAreTooLong(t *testing.T) {
	t.Parallel()
	notes := func(text string) string {
		return strings.Join(mustOpen(t, Options{}, logFile(t, text)).Seen().Notes, "\n")
	}
	require.Contains(t, notes(slow(1, "a", 350)+slow(2, "a", 120)+slow(3, "a", 2)), "requests that took more than a minute: 2 of 3; are their durations in another unit?")
	require.NotContains(t, notes(slow(1, "a", 350)+slow(2, "a", 1)), "unit")
}

func TestSeen_WhatWasRefusedThen(t *testing.T) {
	t.Parallel()
	log := mustOpen(t, Options{}, logFile(t, combined(1, "a", "/")+strings.Replace(combined(2, "a", "/"), " 200 ", " 429 ", 1)))
	require.Equal(t, 1, log.Seen().Refused)
	require.True(t, all(t, log)[1].Refused)
}
