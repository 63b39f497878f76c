package vm

import (
	"regexp"
	"strconv"

	"github.com/beamscope/beamscope/usdt"
)

// Release returns the release of the VM's Erlang/OTP, such as 27, from its executable, or 0 if
// unknown. See [ReleaseOf].
func (v VM) Release() int {
	f, err := v.Exe.Open()
	if err != nil {
		return 0
	}
	defer f.Close()
	return releaseOf(f)
}

// ReleaseOf returns the release of Erlang/OTP in an executable, such as 27. It reads the file and
// never runs it. The name and folder of the file do not matter, and the file may be stripped. The
// release is 0 if the file contains none or several.
func ReleaseOf(path string) int {
	f, err := usdt.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	return releaseOf(f)
}

// Every VM contains the format for printing its version, a constant of
// erts/emulator/beam/erl_bif_info.c that is set when it is compiled:
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
