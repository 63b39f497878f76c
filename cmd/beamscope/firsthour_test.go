package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// fileOfDocument matches a block of a document that is a file, with its name.
var fileOfDocument = regexp.MustCompile("(?ms)^```(?:erlang|yaml) (\\S+)\n(.*?)^```$")

// The shop of first-hour.md works as the document says, on Debian's own VM: run shows its spans beside
// what the diagram makes of them, and trace explains the slow orders by the process stock.
func TestFirstHour(t *testing.T) {
	vmtest.NeedEBPF(t)
	dir := t.TempDir()
	for _, file := range fileOfDocument.FindAllStringSubmatch(document(t, "first-hour.md"), -1) {
		if err := os.WriteFile(filepath.Join(dir, file[1]), []byte(file[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	beam := vmtest.StartOn(t, vmtest.Stock(t, 25), erlang.Options{Paths: []string{dir}})
	vmtest.Eval(t, beam, fmt.Sprintf(`{ok, shop} = compile:file("%[1]s/shop", [{outdir, "%[1]s"}]), shop:start(), ok`, dir))
	pid := strconv.Itoa(beam.PID())

	out, err := exec.CommandContext(t.Context(), "beamscope", "run", "-c", filepath.Join(dir, "shop.yaml"), "--pid", pid, "--json", "--for", "5s").Output()
	if err != nil {
		t.Fatal(err)
	}
	successes, calculated := make(map[string]uint64), 0
	for line := range strings.Lines(string(out)) {
		var row struct {
			Outcome    string
			Observed   struct{ OK uint64 }
			Calculated json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		successes[row.Outcome] += row.Observed.OK
		if len(row.Calculated) > 0 && string(row.Calculated) != "null" {
			calculated++
		}
	}
	for _, outcome := range []string{"order", "basket", "reserve"} {
		if successes[outcome] == 0 {
			t.Errorf("no success of %s: %v", outcome, successes)
		}
	}
	if calculated == 0 {
		t.Errorf("nothing was calculated:\n%s", out)
	}

	if out, err = exec.CommandContext(t.Context(), "beamscope", "trace", "--pid", pid, "--for", "8s").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "(stock) waiting for a timer") {
		t.Errorf("no order is explained by stock:\n%s", out)
	}
}
