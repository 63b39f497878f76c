package main

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A target is code to mutate, and the tests that should notice.
type target struct {
	dir   string
	name  string   // of the package
	files []string // all if empty
	live  []string // functions to leave out because they need the kernel
	tests []tests  // the quickest first
}

// A tests selects tests of a package.
type tests struct {
	dir  string
	args []string
	only string // pattern of the test files to compile; all if empty
}

// Tests of package bpf that need neither an Erlang VM nor the kernel.
const withoutKernel = "^Test(LogOrder|LogBeingWritten|LogLost|LossOfOneStripe|LossUntilTheNextRecord|LogReadWhileWritten|LogClosed|" +
	"EventKinds|OffReasons|OffCPUDetails|DecodeEvent|Label|LayoutRowsAreDisjoint|Arena|LayoutStripes|OptionsCheck|KernelArguments|" +
	"FindBlock|BlockIsWhereItsArgumentsAre|DecodeInstance|Explain|ExplainRefusal|" +
	"ConditionsMeanTheSame|TextsAreWhole|PackPID|Specialize|RuleEvents|BadRules|TermTest|OfSlices|Identifies|" +
	"CountsAreReadOnce|OthersAreReadOnce|Skip|Counters|ChangeOfPlans|EntriesAreFreed|DetailsChange|RefusedChanges|End|Link|Flags|" +
	"NothingAfterClose|DiscoveredNames|Groups|GroupsHaveLongTexts|ChangeNamesWhatIsMissing|FirstIsReplaced|Explains|SpareCells|SumOfLosses|FlagsOfEvents|MessageOrToken|NoEvents)$"

// The exclusions of package bpf: other files, and these functions, work on programs and maps in the
// kernel.
var (
	filesWithoutKernel = []string{
		"arena.go", "arguments.go", "discover.go", "event.go", "features.go", "group.go", "label.go", "layout.go", "log.go",
		"offcpu.go", "plan.go", "rule.go", "stream.go", "text.go", "window.go",
	}
	functionsWithKernel = []string{
		"Supported", "OffCPU", "text", "Drain", "open", "drain", "close", "readGroups", "clearGroups", "takeGroups", "takeGroupsOf",
		"Sweep", "OpenSpans", "CutOpen", "CutVM", "runSweep", "Forget", "forgetCached", "Events",
		"chain", "chainsFit", "linkLabel", "isLinked", "unlink", "pointTo",
	}
)

// The test of package diagram that takes longer than all others together.
const largeDiagrams = "^TestLargeDiagrams$"

// Property tests use the same inputs each time, and write no files when they fail.
const (
	seed   = "-rapid.seed=1"
	noFile = "-rapid.nofailfile"
)

var (
	exactTests   = tests{dir: "internal/testing/exact"}
	diagramTests = tests{dir: "diagram", args: []string{"-test.skip", largeDiagrams}}
	scopeTests   = tests{dir: "internal/engine/scope", args: []string{seed, noFile}}

	// TestBits comes first: it compiles and runs quickly, and notices most changes. Two tests
	// examine files of the source tree, which contains no mutants. TestCoverage takes as long as
	// all others together.
	dqBits       = tests{dir: "dq", args: []string{"-test.run", "^TestBits$"}, only: "bits*_test.go"}
	dqTests      = tests{dir: "dq", args: []string{"-test.skip", "^Test(Bits|SameBitsOnAllProcessors|NoProductCanBeFused|Coverage)$", seed, noFile}}
	dqSimulation = tests{dir: "dq", args: []string{"-test.run", "^TestCoverage$", seed, noFile}}

	targets = []target{
		{dir: "dq", tests: []tests{dqBits, dqTests, exactTests, dqSimulation, diagramTests, scopeTests}},
		{dir: "dq/internal/quad", tests: []tests{{dir: "dq/internal/quad", args: []string{seed, noFile}}, dqBits, dqTests}},
		{dir: "diagram", tests: []tests{
			diagramTests, exactTests, {dir: "diagram", args: []string{"-test.run", largeDiagrams}},
		}},
		{dir: "internal/engine/scope", tests: []tests{scopeTests}},
		{dir: "internal/sources/pairing", tests: []tests{{dir: "internal/sources/pairing", args: []string{seed, noFile}}}},
		{dir: "usdt", files: []string{"entry.go"}, tests: []tests{
			{dir: "usdt", args: []string{"-test.run", "^Test(Entry|NoEntry)$"}, only: "*_test.go"}, {dir: "usdt", args: []string{"-test.run", "^TestEntries"}},
		}},
		{dir: "bpf", files: filesWithoutKernel, live: functionsWithKernel,
			tests: []tests{{dir: "bpf", args: []string{"-test.run", withoutKernel, seed, noFile}}}},
	}
)

func (t *target) is(name string) bool {
	return filepath.Clean(name) == t.dir
}

// mutants returns the mutants of all files of the target that are built here and not generated.
func (t *target) mutants() ([]mutant, error) {
	p, err := build.ImportDir(t.dir, 0)
	if err != nil {
		return nil, err
	}
	t.name = p.Name
	files := token.NewFileSet()
	var parsed []*ast.File
	var sources [][]byte
	for _, name := range p.GoFiles {
		if strings.HasSuffix(name, "_gen.go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(t.dir, name))
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(files, filepath.Join(t.dir, name), source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed, sources = append(parsed, f), append(sources, source)
	}
	twins := fieldsToSwap(parsed)
	var all []mutant
	for i, f := range parsed {
		if name := filepath.Base(files.Position(f.Pos()).Filename); len(t.files) == 0 || slices.Contains(t.files, name) {
			c := &changer{files: files, source: sources[i], twins: twins, target: t}
			c.declarations(f)
			all = append(all, c.mutants...)
		}
	}
	return all, nil
}
