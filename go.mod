module github.com/beamscope/beamscope

go 1.26

require (
	github.com/antlr4-go/antlr/v4 v4.13.1
	github.com/google/go-cmp v0.7.0
	gonum.org/v1/gonum v0.17.0
	pgregory.net/rapid v1.3.0
)

require golang.org/x/exp v0.0.0-20240506185415-9bf2ced13842 // indirect
