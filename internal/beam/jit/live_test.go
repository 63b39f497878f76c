package jit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/jit"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/usdt"
)

// On a VM of each release, with and without symbols, the list contains each function that the VM
// reports. A module appears in the list when it is loaded and disappears when it is purged.
func TestLiveFunctions(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		for _, stripped := range []bool{false, true} {
			if stripped {
				vmtest.Strip(t, otp.Emulator())
			}
			t.Run(fmt.Sprintf("stripped %v", stripped), func(t *testing.T) { testFunctions(t, otp) })
		}
	})
}

func testFunctions(t *testing.T, otp erlang.OTP) {
	v := vmtest.StartOn(t, otp, erlang.Options{})
	p, err := usdt.OpenProcess(v.PID())
	if err != nil {
		t.Fatal(err)
	}
	exe, err := p.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := jit.Open(p, exe)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	names := func() map[string]bool {
		code, err := r.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names := make(map[string]bool)
		for f := range code.All() {
			names[f.Name] = true
		}
		return names
	}
	vmtest.Eval(t, v, "code:ensure_loaded(timer), code:ensure_loaded(io_lib_format)")
	have := names()
	missing, all := 0, vmtest.Eval(t, v, `[lists:flatten(io_lib:format("~w:~w/~w", [M, F, A])) || {M, _} <- code:all_loaded(), {F, A} <- M:module_info(exports), not erlang:is_builtin(M, F, A)]`)
	count := 0
	for _, name := range strings.Split(strings.Trim(all, "[]"), ",") {
		name = strings.ReplaceAll(strings.Trim(name, "\" \n"), `\"`, `"`)
		if count++; !have[name] && !have[strings.ReplaceAll(name, "'", "")] { // reserved words have quotes in Erlang

			if missing++; missing < 5 {
				t.Errorf("no %s", name)
			}
		}
	}
	if count < 1000 || missing > 0 {
		t.Errorf("%d of %d functions are missing", missing, count)
	}
	const module = "zip"
	if have[module+":unzip/1"] {
		t.Fatalf("%s is loaded already", module)
	}
	vmtest.Eval(t, v, "{module, zip} = code:ensure_loaded(zip), true = code:unstick_mod(zip)")
	if !names()[module+":unzip/1"] {
		t.Errorf("%s is loaded, and not in the list", module)
	}
	vmtest.Eval(t, v, "true = code:delete(zip), code:purge(zip)")
	if names()[module+":unzip/1"] && vm.ReleaseOf(otp.Emulator()) > 25 { // OTP 25 keeps purged modules
		t.Errorf("%s is purged, and in the list", module)
	}
	for range 10 { // other modules take its place
		vmtest.Eval(t, v, "code:purge(zip), {module, zip} = code:load_file(zip), code:purge(zip)")
		if !names()[module+":unzip/1"] {
			t.Errorf("%s is loaded again, and not in the list", module)
		}
	}
}
