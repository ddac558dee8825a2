package accesslog

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Formats returns the formats that are known by name, the ones that say more first.
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
			roles: map[string][]string{
				roleEnd: {"ts"}, roleSeconds: {"duration"}, roleMethod: {"request.method"}, roleURI: {"request.uri"}, roleStatus: {"status"},
				roleClient: {"request.client_ip", "request.remote_ip"},
			},
		},
		&object{
			name: "traefik",
			roles: map[string][]string{
				roleStart: {"StartUTC"}, roleNanos: {"Duration"}, roleMethod: {"RequestMethod"}, roleURI: {"RequestPath"},
				roleStatus: {"DownstreamStatus"}, roleClient: {"ClientHost", "ClientAddr"},
			},
		},
		&object{ // leaphttp.Config.DecisionLog
			name: "leapgate",
			roles: map[string][]string{
				roleStart: {"at"}, roleNanos: {"nanos"}, roleResource: {"resource"}, roleKey: {"key"}, roleStatus: {"status"}, roleRefused: {"refused"},
				roleCost: {"cost"}, roleDropped: {"dropped"},
			},
		},
		&object{ // of nginx and Apache, by the names that are mostly given
			name: "json", guessed: true,
			roles: map[string][]string{
				roleEnd:     {"msec", "time_iso8601", "time_local", "@timestamp", "timestamp", "time"},
				roleSeconds: {"request_time"}, roleMillis: {"duration_ms", "response_time_ms", "latency_ms"}, roleMethod: {"request_method", "method"},
				roleRequest: {"request"}, roleURI: {"request_uri", "uri", "path"},
				roleStatus: {"status"}, roleClient: {"remote_addr", "client_ip", "remote_ip", "clientip", "remoteIP"},
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

// hasSeconds reports whether a duration looks as nginx writes it: other numbers may well stand there, such as
// the microseconds of Apache, and sizes.
func hasSeconds(t *text) bool { return likeSeconds(t.value("request_time")) }

// likeSeconds reports whether a number is one of seconds and three digits after the point.
func likeSeconds(s []byte) bool {
	point := len(s) - len(".250")
	if point < 1 || s[point] != '.' {
		return false
	}
	_, whole := digits(s[:point])
	_, part := digits(s[point+1:])
	return whole && part
}

// hasNoHost reports whether the first field is the client: if the name of a host stands before
// it, the user has a blank in it.
func hasNoHost(t *text) bool { return bytes.IndexByte(t.value("remote_user"), ' ') < 0 }

// hasHost reports whether a line begins with the name of a host, and then the client: a port or an
// address tells.
func hasHost(t *text) bool {
	host, client := t.value("host"), t.value("remote_addr")
	_, port := digits(host[bytes.LastIndexByte(host, ':')+1:])
	_, err := netip.ParseAddr(string(client))
	return hasNoHost(t) && (err == nil || port && string(client) != "-")
}

// Named returns the format of a name of [Formats], and reports whether there is one.
func Named(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name() == name {
			return f, true
		}
	}
	return nil, false
}

// Names are those of [Formats].
func Names() (names []string) {
	for _, f := range Formats() {
		names = append(names, f.Name())
	}
	return slices.Clip(names)
}

// ParseFormat returns the format that a text says: a name of [Formats], a description for
// [Template], or members for [JSON] such as "json:end=ts,uri=request.uri".
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

// Detect returns the first of [Formats] in which at least half as many of these lines can be read
// as in any other, and reports whether there is one: a format that says more can be read in one that says
// less too, and so can the lines that were cut off. Only lines count that look like typical ones of a
// format: a number at the end is no duration unless it is written as nginx writes it.
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
			return f.Clone(), true // which has seen none of the lines
		}
	}
	return nil, false
}
