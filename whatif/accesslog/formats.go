package accesslog

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Formats returns new values of all formats with a name. Formats with more fields come first.
func Formats() []Format {
	const request = ` "$request" $status $body_bytes_sent`
	const common = `$remote_addr $ident $remote_user [$time_local]` + request
	const agents = ` "$http_referer" "$http_user_agent"`
	return []Format{
		mustText("alb", `$type $time_iso8601 $elb $client $target $request_processing_time $target_processing_time $response_processing_time `+
			`$status $target_status $received_bytes $sent_bytes "$request" "$user_agent" $ssl_cipher $ssl_protocol $target_group_arn `+
			`"$trace_id" "$domain_name" "$chosen_cert_arn" $matched_rule_priority $start_time `, "", nil),
		mustText("envoy", `[$start_time] "$request" $status $response_flags $bytes_received $bytes_sent $duration $upstream_service_time `+
			`"$x_forwarded_for" "$user_agent" "$request_id" "$authority" "$upstream_host"`, "", nil),
		&object{
			name: "caddy", only: map[string]string{"msg": "handled request"},
			paths: map[field][]string{
				isTime: {"ts"}, isSeconds: {"duration"}, isMethod: {"request.method"}, isURI: {"request.uri"}, isStatus: {"status"},
				isClient: {"request.client_ip", "request.remote_ip"},
			},
		},
		&object{
			name: "traefik",
			paths: map[field][]string{
				isStart: {"StartUTC"}, isNanos: {"Duration"}, isMethod: {"RequestMethod"}, isURI: {"RequestPath"},
				isStatus: {"DownstreamStatus"}, isClient: {"ClientHost", "ClientAddr"},
			},
		},
		&object{ // leaphttp.Config.DecisionLog
			name: "leapgate",
			paths: map[field][]string{
				isStart: {"at"}, isNanos: {"nanos"}, isResource: {"resource"}, isKey: {"key"}, isStatus: {"status"},
				isRefused: {"refused"}, isCost: {"cost"}, isDropped: {"dropped"},
			},
		},
		&object{ // nginx and Apache, with the usual names
			name: "json", guessed: true,
			paths: map[field][]string{
				isTime:    {"msec", "time_iso8601", "time_local", "@timestamp", "timestamp", "time"},
				isSeconds: {"request_time"}, isMillis: {"duration_ms", "response_time_ms", "latency_ms"},
				isMethod: {"request_method", "method"}, isRequest: {"request"}, isURI: {"request_uri", "uri", "path"},
				isStatus: {"status"}, isClient: {"remote_addr", "client_ip", "remote_ip", "clientip", "remoteIP"},
			},
		},
		mustText("ingress-nginx", common+agents+` $request_length $request_time [`, "", hasSeconds),
		mustText("nginx", common+agents+` $request_time`, "", hasSeconds),
		mustText("traefik-clf", `$remote_addr $ident $remote_user [$start_time]`+request+agents+` $request_count "$router" "$server" ${millis}ms`, "", nil),
		mustText("vhost_combined", `$host `+common+agents, noteNoDuration, hasHost),
		mustText("combined", common+agents, noteNoDuration, hasNoHost),
		mustText("common", common, noteNoDuration, hasNoHost),
	}
}

// hasSeconds reports whether the duration looks like one of nginx. Other servers write other numbers there, such as
// microseconds or sizes.
func hasSeconds(t *text) bool { return likeSeconds(t.value("request_time")) }

// likeSeconds reports whether a number has three digits after the point.
func likeSeconds(s []byte) bool {
	point := len(s) - len(".250")
	if point < 1 || s[point] != '.' {
		return false
	}
	_, whole := digits(s[:point])
	_, part := digits(s[point+1:])
	return whole && part
}

// hasNoHost reports whether the first field is the client. If a host name precedes it, the user contains a space.
func hasNoHost(t *text) bool { return bytes.IndexByte(t.value("remote_user"), ' ') < 0 }

// hasHost reports whether a line begins with a host name followed by the client, which a port or an address shows.
func hasHost(t *text) bool {
	host, client := t.value("host"), t.value("remote_addr")
	_, port := digits(host[bytes.LastIndexByte(host, ':')+1:])
	_, err := netip.ParseAddr(string(client))
	return hasNoHost(t) && (err == nil || port && string(client) != "-")
}

// Named returns the format with a name, and reports whether it exists.
func Named(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name() == name {
			return f, true
		}
	}
	return nil, false
}

// Names returns the names of [Formats].
func Names() (names []string) {
	for _, f := range Formats() {
		names = append(names, f.Name())
	}
	return names
}

// ParseFormat returns the format that a text describes: a name of [Formats], a template for [Template], or members
// for [JSON] such as "json:end=ts,uri=request.uri".
func ParseFormat(text string) (Format, error) {
	if f, ok := Named(text); ok {
		return f, nil
	}
	list, ok := strings.CutPrefix(text, "json:")
	if !ok && strings.Contains(text, "$") {
		return Template(text)
	}
	if !ok {
		return nil, fmt.Errorf("accesslog: there is no format %.64q; want one of %s, a log_format of nginx, or json:end=… with members",
			text, strings.Join(Names(), ", "))
	}
	members := make(map[string]string)
	for pair := range strings.SplitSeq(list, ",") {
		role, path, ok := strings.Cut(pair, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("accesslog: the member %.64q has no path; want role=path", pair)
		}
		members[role] = path
	}
	return JSON(members)
}

// Detect returns the first of [Formats] that can read at least half as many of these lines as any other format, and
// reports whether there is one. A format with fewer fields can read the lines of one with more, and some lines are
// cut off, so the number of readable lines alone does not decide.
func Detect(lines [][]byte) (format Format, ok bool) {
	formats := Formats()
	readable := make([]int, len(formats))
	for i, f := range formats {
		t, _ := f.(*text)
		for _, line := range lines {
			if f.Parse(line, new(Record)) == nil && (t == nil || t.typical == nil || t.typical(t)) {
				readable[i]++
			}
		}
	}
	most := slices.Max(readable)
	for i, f := range formats {
		if n := readable[i]; n > 0 && 2*n >= most {
			return Named(f.Name()) // a new one, which has not seen the lines
		}
	}
	return nil, false
}
