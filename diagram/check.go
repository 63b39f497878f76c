package diagram

import "strings"

// check reports names that are defined twice, names that are not defined, and definitions that
// depend on themselves.
func check(f *File, r *reporter) {
	defined := definitions(f, r)
	checkOperators(f, defined, r)
	for _, d := range f.Definitions {
		walk(d.Expr, func(e Expr) {
			switch e := e.(type) {
			case *Reuse:
				if defined[e.Name] == nil {
					r.report(e.Pos, e.Name, "s:%s is not defined%s", e.Name, suggestion(e.Name, f))
				}
			case *Outcome:
				if defined[e.Name] != nil {
					r.report(e.Pos, e.Name, "%s is a diagram, defined in line %d: to use it write s:%s",
						e.Name, defined[e.Name].Pos.Line, e.Name)
				}
			}
		})
	}
	checkCycles(f, defined, r)
}

func definitions(f *File, r *reporter) map[string]*Definition {
	defined := map[string]*Definition{}
	for i, d := range f.Definitions {
		if first := defined[d.Name]; first != nil {
			r.report(d.Pos, d.Name, "%s is defined twice: first in line %d", d.Name, first.Pos.Line)
			continue
		}
		defined[d.Name] = d
		if d.Name == "system" && i < len(f.Definitions)-1 {
			r.report(d.Pos, d.Name, "system is the whole: want it to be the last definition")
		}
	}
	return defined
}

// checkOperators reports operators that have the same name as something else. A name identifies an
// outcome, so it must be unique. If a definition consists only of an operator, both may have the
// same name.
func checkOperators(f *File, defined map[string]*Definition, r *reporter) {
	outcomes, operators := map[string]bool{}, map[string]*Operator{}
	for _, name := range f.Outcomes() {
		outcomes[name] = true
	}
	for _, d := range f.Definitions {
		walk(d.Expr, func(e Expr) {
			op, ok := e.(*Operator)
			if !ok {
				return
			}
			word := string(op.Kind) + ":" + op.Name
			first := operators[op.Name]
			switch other := defined[op.Name]; {
			case first != nil:
				r.report(op.Pos, word, "the name %s is taken by an operator in line %d", op.Name, first.Pos.Line)
			case other != nil && other.Expr != e:
				r.report(op.Pos, word, "the name %s is taken by the definition in line %d", op.Name, other.Pos.Line)
			case outcomes[op.Name]:
				r.report(op.Pos, word, "the name %s is taken by an outcome", op.Name)
			}
			operators[op.Name] = op
		})
	}
}

// suggestion returns a hint if a defined name differs from name only in case, and "" otherwise.
func suggestion(name string, f *File) string {
	for _, d := range f.Definitions {
		if strings.EqualFold(d.Name, name) {
			return ": is it s:" + d.Name + "?"
		}
	}
	return ""
}

// checkCycles reports each cycle of definitions once, at the reuse that closes the cycle.
func checkCycles(f *File, defined map[string]*Definition, r *reporter) {
	done := map[*Definition]bool{}
	var path []*Definition
	var visit func(d *Definition)
	visit = func(d *Definition) {
		path = append(path, d)
		walk(d.Expr, func(e Expr) {
			reuse, ok := e.(*Reuse)
			if !ok || defined[reuse.Name] == nil {
				return
			}
			if start := indexOf(path, defined[reuse.Name]); start >= 0 {
				r.report(reuse.Pos, reuse.Name, "a circle: %s", circle(path[start:]))
			} else if !done[defined[reuse.Name]] {
				visit(defined[reuse.Name])
			}
		})
		path = path[:len(path)-1]
		done[d] = true
	}
	for _, d := range f.Definitions {
		if !done[d] {
			visit(d)
		}
	}
}

func indexOf(path []*Definition, d *Definition) int {
	for i, p := range path {
		if p == d {
			return i
		}
	}
	return -1
}

func circle(path []*Definition) string {
	var names []string
	for _, d := range path {
		names = append(names, d.Name)
	}
	return strings.Join(append(names, path[0].Name), " → ")
}
