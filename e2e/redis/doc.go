// Package redis holds the limiters of leapredis against real servers, which it starts on
// the loopback and ends again:
//
//	apt-get install redis-server
//	go test -tags e2e -timeout 300s ./redis
//
// With LEAPGATE_REDIS_ROOT, the tests also run against a newer server:
//
//	debootstrap --variant=minbase --include=redis-server,redis-tools trixie DIRECTORY
//	LEAPGATE_REDIS_ROOT=DIRECTORY go test -tags e2e -timeout 300s ./redis
//
// Its tests print what they measure with -v: excesses, waits, and bytes for each key.
package redis
