// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProgramsDoTheSameWithTheImportPathChanged(t *testing.T) {
	asWritten := runPrograms(t)
	changed := runPrograms(t, "-overlay="+writeOverlay(t, peerPath, *targetPath))

	reportRun(t, "as written, with "+peerPath, asWritten)
	reportRun(t, "changed, with "+*targetPath, changed)
	assert.Equal(t, declaredTests(t, programFiles(t)), asWritten.children(""), "a test in the files did not run")
	reportTests(t, "", asWritten, changed)
}

// reportRun reports a run that failed outside of any program: it did not compile, crashed, or leaked a
// goroutine.
func reportRun(t *testing.T, title string, run testRun) {
	t.Helper()
	for _, test := range run.tests {
		if !test.passed {
			return // the subtest reports it
		}
	}
	if !run.passed {
		t.Errorf("%s:\n%s", title, run.output)
	}
}

// reportTests starts a subtest for each program, and for each of its subtests.
func reportTests(t *testing.T, parent string, asWritten, changed testRun) {
	names := slices.Concat(asWritten.children(parent), changed.children(parent))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		t.Run(path.Base(name), func(t *testing.T) {
			for _, problem := range compare(name, asWritten, changed) {
				t.Error(problem)
			}
			reportTests(t, name, asWritten, changed)
		})
	}
}

// compare returns the problems of a program: a run that failed, with its output, or else different
// transcripts.
func compare(name string, asWritten, changed testRun) []string {
	var problems []string
	for _, side := range []struct {
		title string
		run   testRun
	}{{"as written", asWritten}, {"with the import path changed", changed}} {
		switch test := side.run.tests[name]; {
		case test == nil:
			problems = append(problems, fmt.Sprintf("did not run %s\n%s", side.title, side.run.output))
		case !test.passed:
			problems = append(problems, fmt.Sprintf("failed %s:\n%s", side.title, test.output))
		}
	}
	if problems != nil {
		return problems
	}
	was, is := asWritten.tests[name].transcript, changed.tests[name].transcript
	if !slices.Equal(was, is) {
		problems = append(problems, fmt.Sprintf("transcripts differ\nas written:\n\t%s\nwith the import path changed:\n\t%s",
			strings.Join(was, "\n\t"), strings.Join(is, "\n\t")))
	}
	return problems
}

// declaredTests returns the names of the tests in files, sorted. Comparing them with a run finds tests that
// did not run.
func declaredTests(t *testing.T, files []string) []string {
	t.Helper()
	var names []string
	fset := token.NewFileSet()
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				names = append(names, f.Name.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
