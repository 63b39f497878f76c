package dq

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A compiler may fuse a product and a sum into one operation that rounds only once, and does so
// on some processors. The package therefore converts each product of floats explicitly, which
// rounds it. From package math it uses only functions with one exact result.
func TestNoProductCanBeFusedWithASum(t *testing.T) {
	for _, dir := range []string{".", "internal/quad"} {
		files := token.NewFileSet()
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var parsed []*ast.File
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		config := types.Config{Importer: importer.ForCompiler(files, "source", nil)}
		if _, err := config.Check("x/dq", files, parsed, info); err != nil || len(parsed) == 0 {
			t.Fatalf("%d files of %s: %v", len(parsed), dir, err)
		}
		for _, f := range parsed {
			checkRounding(t, files, info, f)
		}
	}
}

func checkRounding(t *testing.T, files *token.FileSet, info *types.Info, f *ast.File) {
	exact := []string{"Abs", "Ceil", "Copysign", "FMA", "Float64bits", "Float64frombits", "Floor", "Frexp", "Inf", "IsInf", "IsNaN",
		"Ldexp", "NaN", "Nextafter", "Round", "RoundToEven", "Sqrt"}
	converted := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "float64" {
				converted[ast.Unparen(n.Args[0])] = true
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			_, function := info.Types[n].Type.(*types.Signature)
			if ok && function && x.Name == "math" && !slices.Contains(exact, n.Sel.Name) {
				t.Errorf("%v: math.%s may differ from processor to processor", files.Position(n.Pos()), n.Sel.Name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.MUL_ASSIGN && floating(info, n.Lhs[0]) {
				t.Errorf("%v: write x = float64(x * y)", files.Position(n.Pos()))
			}
		case *ast.BinaryExpr:
			if n.Op == token.MUL && floating(info, n) && info.Types[n].Value == nil && !converted[n] {
				t.Errorf("%v: a product that can be fused with a sum: write float64(x * y)", files.Position(n.Pos()))
			}
		}
		return true
	})
}

func floating(info *types.Info, e ast.Expr) bool {
	basic, ok := info.Types[e].Type.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0
}

// The golden bits of TestBits are the same for processors with and without fused multiply-add and
// for other architectures. The tests are compiled for each, and run if possible: on processors
// with these instructions, and for arm64 if there is an emulator.
func TestSameBitsOnAllProcessors(t *testing.T) {
	if testing.Short() {
		t.Skip("builds for several processors")
	}
	if runtime.GOARCH == "amd64" {
		for _, level := range []string{"v1", "v3"} {
			checkBits(t, nil, "GOARCH=amd64", "GOAMD64="+level)
		}
	}
	if emulator, err := exec.LookPath("qemu-aarch64"); err == nil && runtime.GOARCH != "arm64" {
		checkBits(t, []string{emulator}, "GOARCH=arm64")
	}
}

// checkBits compiles the tests and runs TestBits.
func checkBits(t *testing.T, run []string, env ...string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dq.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-o", program, ".")
	build.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", env, err, out)
	}
	command := append(run, program, "-test.run=^TestBits$", "-test.v")
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	switch {
	case err != nil && strings.Contains(string(out), "can only be run on AMD64 processors"):
		t.Logf("%v: this processor lacks the instructions: compiled but not run", env)
	case err != nil:
		t.Errorf("%v: %v\n%s", env, err, out)
	case !strings.Contains(string(out), "--- PASS: TestBits/"):
		t.Errorf("%v: the bits were not compared:\n%s", env, out)
	}
}
