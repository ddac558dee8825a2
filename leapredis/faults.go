package leapredis

import (
	"errors"
	"strconv"
	"strings"
)

// fault is an error that a server replied to a script, made out from its text. The texts
// differ between servers. Some name neither the code nor the command of an error inside a
// script, only the line at which it occurred:
//
//	ERR The user executing the script can't run this command or subcommand script: …, on @user_script:64.   Redis 7.0
//	ERR ACL failure in script: User … has no permissions to run the 'set' command script: …, on @user_script:64.   Redis 8, Valkey
type fault struct {
	reply  *ReplyError
	script *script
	about  about
	denied string // what was, in words
}

type about uint8

const (
	aboutServer about = iota // it decides nothing now, whatever the key
	aboutUser                // the server denies something to the user that calls
	aboutKey                 // the key holds what no limiter of this kind wrote
	aboutWrites              // the server answers, and rejects writes
)

// Error is the server's text.
func (f *fault) Error() string { return f.reply.Error() }

// Unwrap returns what the server replied.
func (f *fault) Unwrap() error { return f.reply }

// faultOf makes an error that a server replied to a script into a [fault]. Others stay.
func faultOf(s *script, err error) error {
	reply := replyOf(err)
	if reply == nil {
		return err
	}
	f := &fault{reply: reply, script: s}
	text := strings.ToLower(reply.Text)
	switch code, _, _ := strings.Cut(reply.Text, " "); {
	case strings.HasPrefix(text, "err unknown command '"): // of the call itself: its arguments follow, with the key
	case code == "NOPERM" || contains(text, "acl failure", "the user executing the script can't"):
		f.about, f.denied = aboutUser, deniedBy(s, reply.Text)
	case code == "WRONGTYPE":
		f.about = aboutKey
	case code == "OOM" || code == "READONLY" || code == "NOREPLICAS" || code == "MISCONF":
		f.about = aboutWrites
	case code == "ERR" && contains(text, "script: "+s.sha, "@user_script:") && !contains(text, ofServers...):
		f.about = aboutKey // the script could not read what it found
	}
	return f
}

// asFault is the fault that an error is, nil if it is none.
func asFault(err error) *fault {
	if err == nil {
		return nil
	}
	var f *fault
	errors.As(err, &f)
	return f
}

// ofServers is what errors inside a script have in them that are about the server. All others
// are due to what the key holds: numbers that are none, texts that are too short.
var ofServers = []string{
	"command called from script", // it is unknown
	"not allowed",                // from a script, on a replica, with so much memory
	"non local key", "same slot", // the cluster is being changed
	"compiling", "script killed", "not enough memory",
}

func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// deniedBy returns what an error says is denied, without the keys that it names.
func deniedBy(s *script, text string) string {
	if contains(strings.ToLower(text), "a key", "the keys", "' key") {
		return "access to keys of this prefix"
	}
	if _, rest, ok := strings.Cut(text, "run the '"); ok {
		if name, _, ok := strings.Cut(rest, "'"); ok && isCommand(name) {
			return "the command " + strings.ToUpper(name)
		}
	}
	if _, rest, ok := strings.Cut(text, "@user_script:"); ok {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		number, _ := strconv.Atoi(digits)
		if names := s.calls(number); len(names) > 0 {
			return "the command " + names[0]
		}
	}
	return "a command of a script"
}

func isCommand(name string) bool {
	return name != "" && len(name) <= 64 &&
		strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789|._-") == ""
}

// calls returns the commands that a line of the script calls.
func (s *script) calls(line int) (names []string) {
	lines := strings.Split(s.text, "\n")
	if line < 1 || line > len(lines) {
		return nil
	}
	for _, rest := range strings.Split(lines[line-1], "call('")[1:] {
		name, _, _ := strings.Cut(rest, "'")
		names = append(names, name)
	}
	return names
}

// loggable is an error without what a server may tell of the arguments of a command: they
// have the key.
func loggable(err error) string {
	f := asFault(err)
	switch {
	case f == nil:
		return printable(err.Error())
	case f.about == aboutUser:
		return "the server denies " + f.denied
	default:
		code, _, _ := strings.Cut(f.reply.Text, " ")
		return printable("the server replied: " + code)
	}
}

// printable is a text for a log: of bounded length, and of nothing but ASCII that is printed,
// whatever was sent.
func printable(text string) string {
	const maxLength = 200
	cut := text[:min(len(text), maxLength)]
	cut = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, cut)
	if len(text) > maxLength {
		cut += "..."
	}
	return cut
}
