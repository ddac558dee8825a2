module github.com/leapgate-go/leapgate

go 1.26

require go.uber.org/atomic v1.12.0
