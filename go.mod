module github.com/beamscope/beamscope

go 1.26
