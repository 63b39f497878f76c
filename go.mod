module github.com/beamscope/beamscope

go 1.26

require (
	github.com/google/go-cmp v0.7.0
	go.uber.org/goleak v1.3.0
)
