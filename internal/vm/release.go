package vm

import (
	"regexp"
	"strconv"

	"github.com/beamscope/beamscope/usdt"
)

// Release returns the release of Erlang/OTP that the VM is, such as 27, by its
// executable; see [ReleaseOf]. It is 0 where that does not tell.
func (v VM) Release() int { return ReleaseOf(v.Exe.Path) }

// ReleaseOf returns the release of Erlang/OTP that an executable is, such as 27. It
// reads the file and never runs it. Its name and folder do not matter, nor whether it
// is stripped. The release is 0 where the file does not tell it, or tells several.
func ReleaseOf(path string) int {
	f, err := usdt.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	return releaseOf(f)
}

// Every VM has the format in which it prints its version, a constant of
// erts/emulator/beam/erl_bif_info.c made when it is compiled:
//
//	Erlang/OTP 25%s [erts-13.1.5] [source] [64-bit] …
const versionPrefix = "Erlang/OTP "

var versionFormat = regexp.MustCompile(`^Erlang/OTP (\d{2})%s \[erts-\d+\.`)

func releaseOf(f *usdt.File) int {
	texts, err := f.Texts(versionPrefix)
	if err != nil {
		return 0
	}
	release := 0
	for _, text := range texts {
		m := versionFormat.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil || release != 0 && release != n {
			return 0
		}
		release = n
	}
	return release
}
