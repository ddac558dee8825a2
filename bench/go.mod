module github.com/leapgate-go/leapgate/bench

go 1.26

require github.com/leapgate-go/leapgate v0.0.0

require go.uber.org/atomic v1.12.0 // indirect

replace github.com/leapgate-go/leapgate => ../
