// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	// What the page speaks of: without it, a cached result of this test would outlive a
	// change that breaks the page.
	_ "github.com/statekeel/statekeel/reconciler"
	_ "github.com/statekeel/statekeel/reconciler/event"
	_ "github.com/statekeel/statekeel/reconciler/managed"
	_ "github.com/statekeel/statekeel/reconciler/object"
	_ "github.com/statekeel/statekeel/reconciler/request"
	_ "github.com/statekeel/statekeel/reconciler/stateful"
	_ "github.com/statekeel/statekeel/reconciler/stepper"
	_ "github.com/statekeel/statekeel/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readPage returns the rows of the page by section.
func readPage(t *testing.T) map[string][]row {
	t.Helper()
	page, err := os.ReadFile(root + "/docs/COMPATIBILITY.md")
	require.NoError(t, err)
	rows, problems := parse(string(page))
	for _, problem := range problems {
		t.Errorf("docs/COMPATIBILITY.md: %s", problem)
	}
	return rows
}

// Every name that a program may come with has a row, and each row is of such a name.
func TestEveryNameHasARow(t *testing.T) {
	rows, peers := readPage(t), exportedBy(newLoader(t).Load(t, peer))
	for i, s := range sections {
		want := slices.Clone(s.names)
		if i == 0 {
			want = append(want, peers...)
		}
		require.Contains(t, rows, s.title)
		assert.Empty(t, differences(want, rows[s.title]), "section %q", s.title)
	}
}

// differences returns what a table lacks of some names, has twice or has beside them.
func differences(want []string, rows []row) (problems []string) {
	seen := map[string]int{}
	for _, r := range rows {
		for _, name := range r.there {
			if seen[name]++; seen[name] > 1 {
				problems = append(problems, fmt.Sprintf("line %d: %s has a row already", r.line, name))
			}
			if !slices.Contains(want, name) {
				problems = append(problems, fmt.Sprintf("line %d: %s is not a name of there", r.line, name))
			}
		}
	}
	for _, name := range want {
		if seen[name] == 0 {
			problems = append(problems, name+" has no row")
		}
	}
	return problems
}

// What a row names here is there for programs to use, and a test of its adapter uses it. That
// the names of statedb's reconciler are used is for TestEveryExportedNameIsUsedByAProgram, in
// internal/tests/dropin.
func TestEveryNameHereExistsAndIsUsed(t *testing.T) {
	rows, l := readPage(t), newLoader(t)
	for _, s := range sections {
		var u *usage
		if s.adapter != "" {
			used := l.usesOf(t, packages[s.adapter])
			u = &used
		}
		for _, r := range rows[s.title] {
			for _, problem := range problemsOf(t, l, r, u) {
				t.Errorf("docs/COMPATIBILITY.md:%d: %s", r.line, problem)
			}
		}
	}
}

// problemsOf returns which of the names here of a row do not exist, or are not used by u,
// which may be nil.
func problemsOf(t *testing.T, l loader, r row, u *usage) (problems []string) {
	for _, name := range r.here {
		switch obj := l.find(t, name); {
		case obj == nil:
			problems = append(problems, name+" does not exist")
		case u != nil && !u.uses(obj):
			problems = append(problems, name+" is used by no test")
		}
	}
	return problems
}

// A page that is wrong must not pass, or the tests above show nothing.
func TestMistakesInATableAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"| `A` | `request.A` | same |":          "it has 3 cells, want 4",
		"| `A` | `request.A` | alike | |":       `"alike" says nothing of a name`,
		"| `A` | `request.B` | same | |":        `["request.B"] is not the same name as ["A"]`,
		"| `A` | `request.B` | adapted | |":     `it does not say why ["A" "request.B"] is adapted`,
		"| `A` | – | left out | |":              `it does not say why ["A"] is left out`,
		"| `A` | – | same | |":                  "a name is left out if there is none here",
		"| `A` | `request.A` | left out | so |": "a name is left out if there is none here",
		"| – | `request.A` | same | |":          "a name is new if there is none there",
		"| `A` | `request.A` | new | so |":      "a name is new if there is none there",
		"| – | `request.A` | new | so |":        "",
		"| `A` | `request.A` | same | |":        "",
	} {
		_, problem := parseRow(text)
		assert.Equal(t, want, problem, text)
	}
	rows, problems := parse("# Page\n| `X` | |\n## One\nwords\n| There | Here | | |\n|---|---|---|---|\n| `A`: `B`, `C` | `request.A`: `B`, `C` | same | |\n## Two\n| `A` |\n")
	require.Equal(t, []string{"line 2: it has 2 cells, want 4", "line 9: it has 1 cells, want 4"}, problems)
	require.Equal(t, map[string][]row{
		"One": {{line: 7, there: []string{"A", "A.B", "A.C"}, here: []string{"request.A", "request.A.B", "request.A.C"}, how: same}},
		"Two": nil,
	}, rows)
	require.Equal(t, []string{"line 7: A.C is not a name of there", "D has no row"}, differences([]string{"A", "A.B", "D"}, rows["One"]))
	require.Equal(t, []string{"line 7: A has a row already"}, differences([]string{"A", "A.B", "A.C"}, append(rows["One"], row{line: 7, there: []string{"A"}})))
}

// Names that are not there, and names that nobody uses, are found.
func TestAMissingNameAndAnUnusedOneAreFound(t *testing.T) {
	l := newLoader(t)
	for _, name := range []string{
		"request.None", "request.Result.None", "request.Result.RequeueAfter.None", "request.New.None", "request.keyOf", "request.Row.present",
		"none.New", "request", "",
	} {
		assert.Nil(t, l.find(t, name), name)
	}
	u := l.checkSource(t, `package user
		import (
			"context"
			"github.com/statekeel/statekeel/reconciler/request"
		)
		type mine struct{}
		func (mine) Reconcile(context.Context, string) (request.Result, error) { return request.Result{Requeue: true}, nil }
		func use(c *request.Controller[string]) { c.Add() }`)
	row := row{here: strings.Fields("request.Result request.Result.Requeue request.Reconciler.Reconcile request.Controller.Add " +
		"request.Result.RequeueAfter request.Func.Reconcile request.Controller.Loop request.New request.None")}
	require.Equal(t, []string{
		"request.Result.RequeueAfter is used by no test", "request.Func.Reconcile is used by no test",
		"request.Controller.Loop is used by no test", "request.New is used by no test", "request.None does not exist",
	}, problemsOf(t, l, row, &u))
}
