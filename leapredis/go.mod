module github.com/leapgate-go/leapgate/leapredis

go 1.26

require (
	github.com/leapgate-go/leapgate v0.0.0
	github.com/redis/rueidis v1.0.79
)

require (
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/leapgate-go/leapgate => ../
