// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chosen is the environment variable with the number of the mutant that a test binary runs, from 1.
const chosen = "STATEKEEL_MUTANT"

// switchFile is added to each package with a mutant.
const switchFile = `package %s

import "os"

var chosenMutant = os.Getenv(%q)
`

// weave writes all mutants into folder as an overlay for go build: each is a copy of its function, which the true one
// calls if the environment has chosen it. It returns the path of the overlay. So the tests of a package are compiled
// once for all mutants.
func weave(root, folder string, mutants []mutant) (overlay string, err error) {
	replace := map[string]string{}
	lay := func(path, text string) error {
		if path = filepath.Join(root, path); replace[path] != "" {
			return nil
		}
		file := filepath.Join(folder, fmt.Sprintf("%d.go", len(replace)))
		replace[path] = file
		return os.WriteFile(file, []byte(text), 0o600)
	}
	byFile := map[string][]int{}
	for i, m := range mutants {
		byFile[m.file] = append(byFile[m.file], i)
	}
	var unfit []error
	for file, numbers := range byFile {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		f, err := parseSource(string(text))
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		for _, i := range numbers {
			unfit = append(unfit, f.add(i+1, &mutants[i]))
		}
		if err := lay(file, f.woven()); err != nil {
			return "", err
		}
		if err := lay(filepath.Join(filepath.Dir(file), "zz_mutants.go"), fmt.Sprintf(switchFile, f.name, chosen)); err != nil {
			return "", err
		}
	}
	if err := errors.Join(unfit...); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// source is a Go file.
type source struct {
	text   string
	name   string // of its package
	funcs  []*function
	copies strings.Builder
}

// function is a function with a body, from start to end. calls has the calls of its mutants.
type function struct {
	decl       *ast.FuncDecl
	start, end int
	calls      string
}

func parseSource(text string) (*source, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &source{text: text, name: parsed.Name.Name}
	for _, d := range parsed.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			f.funcs = append(f.funcs, &function{decl: d, start: at(d.Pos()), end: at(d.End())})
		}
	}
	return f, nil
}

// at returns the offset of a position: the first file of a set begins at 1.
func at(pos token.Pos) int { return int(pos) - 1 }

// add adds the mutant with a number.
func (f *source) add(number int, m *mutant) error {
	if n := strings.Count(f.text, m.old); n != 1 {
		return fmt.Errorf("mutant %s: its lines occur %d times in %s, want 1", m.name, n, m.file)
	}
	first := strings.Index(f.text, m.old)
	i := slices.IndexFunc(f.funcs, func(fn *function) bool {
		return fn.start <= first && first+len(m.old) <= fn.end+1
	})
	if i < 0 {
		return fmt.Errorf("mutant %s: its lines are not in one function of %s", m.name, m.file)
	}
	fn := f.funcs[i]
	d, copied := fn.decl, fmt.Sprintf("%s_%d", fn.decl.Name.Name, number)
	text := f.text[fn.start:first] + m.new + f.text[first+len(m.old):max(fn.end, first+len(m.old))]
	name := at(d.Name.Pos()) - fn.start
	if first == fn.start {
		name = strings.Index(text, d.Name.Name+"(")
	}
	// What the compiler says of the copy names the mutant.
	fmt.Fprintf(&f.copies, "\n//line %s:1\n%s%s%s\n", m.name, text[:name], copied, text[name+len(d.Name.Name):])

	call := copied
	if d.Recv != nil {
		call = names(d.Recv)[0] + "." + copied
	} else if d.Type.TypeParams != nil {
		call += "[" + strings.Join(names(d.Type.TypeParams), ", ") + "]"
	}
	arguments := names(d.Type.Params)
	if list := d.Type.Params.List; len(list) > 0 {
		if _, dots := list[len(list)-1].Type.(*ast.Ellipsis); dots {
			arguments[len(arguments)-1] += "..."
		}
	}
	call += "(" + strings.Join(arguments, ", ") + ")"
	if d.Type.Results != nil {
		call = "return " + call
	} else {
		call += "; return"
	}
	fn.calls += fmt.Sprintf(" if chosenMutant == \"%d\" { %s };", number, call)
	return nil
}

// names returns the names of the fields. Those without one are called after their place.
func names(fields *ast.FieldList) (all []string) {
	for _, field := range fields.List {
		for _, name := range field.Names {
			if name.Name == "_" {
				all = append(all, unnamed(field.Type.Pos(), len(all)))
			} else {
				all = append(all, name.Name)
			}
		}
		if len(field.Names) == 0 {
			all = append(all, unnamed(field.Type.Pos(), len(all)))
		}
	}
	return all
}

func unnamed(pos token.Pos, place int) string { return fmt.Sprintf("unnamed%d_%d", pos, place) }

// woven returns the text with the mutants.
func (f *source) woven() string {
	var b strings.Builder
	from := 0
	put := func(until, next int, text string) {
		b.WriteString(f.text[from:until])
		b.WriteString(text)
		from = next
	}
	for _, fn := range f.funcs {
		if fn.calls == "" {
			continue
		}
		for _, fields := range []*ast.FieldList{fn.decl.Recv, fn.decl.Type.Params} {
			if fields == nil {
				continue
			}
			called := names(fields)
			for _, field := range fields.List {
				if len(field.Names) == 0 {
					put(at(field.Type.Pos()), at(field.Type.Pos()), called[0]+" ")
					called = called[1:]
				}
				for _, name := range field.Names {
					put(at(name.Pos()), at(name.End()), called[0])
					called = called[1:]
				}
			}
		}
		brace := at(fn.decl.Body.Lbrace) + 1
		put(brace, brace, fn.calls)
	}
	b.WriteString(f.text[from:])
	return b.String() + f.copies.String()
}
