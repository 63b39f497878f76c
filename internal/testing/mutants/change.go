package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A mutant is a change at one place in a file.
type mutant struct {
	file     string
	line     int
	from, to int // offsets of the replaced code
	old, new string
	context  string // the trimmed line
	source   []byte // of the file
	body     *span  // of the function; nil outside of functions
	target   *target
	id       int // from 1
}

// A span is a range of offsets.
type span struct{ from, to int }

// String returns the place and the change, in the form of equivalent.txt but with the line's
// number.
func (m mutant) String() string { return fmt.Sprintf("%s:%d: %s", m.file, m.line, m.change()) }

func (m mutant) change() string {
	return fmt.Sprintf("%s → %s in: %s", oneLine(m.old), oneLine(m.new), m.context)
}

func oneLine(s string) string {
	if s = strings.Join(strings.Fields(s), " "); s == "" {
		return "nothing"
	}
	return s
}

// A changer collects the mutants of a file.
type changer struct {
	files   *token.FileSet
	source  []byte
	twins   map[string]string // fields of the same type in one struct
	target  *target
	body    *span
	mutants []mutant
}

// operators maps operators to their replacements.
var operators = map[token.Token][]string{
	token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.EQL: {"!="}, token.NEQ: {"=="},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"}, token.REM: {"/"},
	token.SHL: {">>"}, token.SHR: {"<<"}, token.AND: {"|"}, token.OR: {"&"}, token.LAND: {"||"}, token.LOR: {"&&"},
	token.ADD_ASSIGN: {"-="}, token.SUB_ASSIGN: {"+="}, token.INC: {"--"}, token.DEC: {"++"},
}

// names maps names to their replacements: the function that rounds in the other direction, or the
// other truth value.
var names = map[string]string{
	"mulDown": "mulUp", "mulUp": "mulDown", "addDown": "addUp", "addUp": "addDown", "subDown": "subUp", "subUp": "subDown",
	"divDown": "divUp", "divUp": "divDown", "rootDown": "rootUp", "rootUp": "rootDown", "down": "up", "up": "down",
	"min": "max", "max": "min", "true": "false", "false": "true", "nextIf": "previousIf", "previousIf": "nextIf",
}

// rounded are functions that are replaced by plain arithmetic, without rounding.
var rounded = map[string]string{
	"mulDown": "*", "mulUp": "*", "addDown": "+", "addUp": "+", "subDown": "-", "subUp": "-", "divDown": "/", "divUp": "/", "ceilDiv": "/",
}

// declarations collects the mutants of all declarations in a file, except of functions that are
// left out.
func (c *changer) declarations(f *ast.File) {
	for _, d := range f.Decls {
		c.body = nil
		f, ok := d.(*ast.FuncDecl)
		switch {
		case ok && slices.Contains(c.target.live, f.Name.Name):
		case ok && f.Body != nil:
			c.body = &span{c.files.Position(f.Body.Pos()).Offset, c.files.Position(f.Body.End()).Offset}
			ast.Inspect(f.Body, c.visit)
		default:
			ast.Inspect(d, c.visit)
		}
	}
}

func (c *changer) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.CONST || n.Tok == token.VAR
	case *ast.BinaryExpr:
		c.binary(n)
	case *ast.AssignStmt:
		c.replaceToken(n.TokPos, n.Tok)
		if n.Tok != token.DEFINE {
			c.replace(n, "")
		}
	case *ast.IncDecStmt:
		c.replaceToken(n.TokPos, n.Tok)
		c.replace(n, "")
	case *ast.ExprStmt:
		c.replace(n, "")
	case *ast.IfStmt:
		c.replace(n.Cond, "!("+c.text(n.Cond)+")")
	case *ast.BranchStmt:
		c.replace(n, "")
	case *ast.BasicLit:
		c.literal(n)
	case *ast.CallExpr:
		c.call(n)
	case *ast.SelectorExpr:
		if twin, ok := c.twins[n.Sel.Name]; ok {
			c.replace(n.Sel, twin)
		}
	case *ast.Ident:
		if other, ok := names[n.Name]; ok {
			c.replace(n, other)
		}
	}
	return true
}

func (c *changer) binary(n *ast.BinaryExpr) {
	c.replaceToken(n.OpPos, n.Op)
	if n.Op == token.LAND || n.Op == token.LOR {
		c.replace(n, c.text(n.X))
		c.replace(n, c.text(n.Y))
	}
}

func (c *changer) replaceToken(pos token.Pos, t token.Token) {
	for _, other := range operators[t] {
		c.add(pos, pos+token.Pos(len(t.String())), other)
	}
}

// literal changes a number: an integer by one, and other numbers to 0 or to a thousandth.
func (c *changer) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		v, err := strconv.ParseInt(n.Value, 0, 64)
		if err != nil {
			return
		}
		c.replace(n, strconv.FormatInt(v+1, 10))
		if v > 0 {
			c.replace(n, strconv.FormatInt(v-1, 10))
		}
	case token.FLOAT:
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil && v == 0 {
			return // a thousandth of it is also 0
		}
		c.replace(n, "0")
		c.replace(n, "("+n.Value+"/1000)")
	}
}

// call removes the rounding from a function of two arguments, or removes one of the arguments.
func (c *changer) call(n *ast.CallExpr) {
	f, ok := n.Fun.(*ast.Ident)
	if !ok || len(n.Args) != 2 {
		return
	}
	a, b := c.text(n.Args[0]), c.text(n.Args[1])
	if op, ok := rounded[f.Name]; ok {
		c.replace(n, "(("+a+")"+op+"("+b+"))")
	}
	if f.Name == "min" || f.Name == "max" {
		c.replace(n, a)
		c.replace(n, b)
	}
}

func (c *changer) text(n ast.Node) string {
	return string(c.source[c.files.Position(n.Pos()).Offset:c.files.Position(n.End()).Offset])
}

func (c *changer) replace(n ast.Node, with string) { c.add(n.Pos(), n.End(), with) }

func (c *changer) add(from, to token.Pos, with string) {
	start, end := c.files.Position(from), c.files.Position(to)
	line := strings.LastIndexByte(string(c.source[:start.Offset]), '\n') + 1
	text, _, _ := strings.Cut(string(c.source[line:]), "\n")
	c.mutants = append(c.mutants, mutant{
		file: start.Filename, line: start.Line, from: start.Offset, to: end.Offset,
		old: string(c.source[start.Offset:end.Offset]), new: with,
		context: strings.TrimSpace(text), source: c.source, body: c.body, target: c.target,
	})
}

// fieldsToSwap maps each field to the next field of the same type on the same line of its struct.
// It leaves out names that two structs have.
func fieldsToSwap(parsed []*ast.File) map[string]string {
	twins, seen := map[string]string{}, map[string]int{}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				for i, name := range field.Names {
					seen[name.Name]++
					if len(field.Names) > 1 {
						twins[name.Name] = field.Names[(i+1)%len(field.Names)].Name
					}
				}
			}
			return true
		})
	}
	for name := range twins {
		if seen[name] > 1 && name != "lo" && name != "hi" && name != "Lo" && name != "Hi" {
			delete(twins, name)
		}
	}
	return twins
}
