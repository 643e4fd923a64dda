// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/tests/exported"

	// The packages that the map names. Without these imports a cached result of this test would outlive a
	// change in them.
	_ "github.com/statekeel/statekeel/reconciler"
	_ "github.com/statekeel/statekeel/reconciler/event"
	_ "github.com/statekeel/statekeel/reconciler/managed"
	_ "github.com/statekeel/statekeel/reconciler/object"
	_ "github.com/statekeel/statekeel/reconciler/request"
	_ "github.com/statekeel/statekeel/reconciler/stateful"
	_ "github.com/statekeel/statekeel/reconciler/stepper"
	_ "github.com/statekeel/statekeel/status"
)

var update = flag.Bool("update", false, "write docs/COMPATIBILITY.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPageIsCurrent(t *testing.T) {
	const file = root + "/docs/COMPATIBILITY.md"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(page()), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, page(), string(have), "write it again: go test ./internal/tests/compat -update")
}

func TestRowsAreComplete(t *testing.T) {
	for _, s := range systems {
		for _, r := range s.rows {
			assert.Empty(t, r.check(), "%s: %s", s.pkg, r.label())
		}
	}
}

func TestEveryNameThereIsMappedOnce(t *testing.T) {
	peers := slices.Collect(maps.Values(exported.Names(newLoader(t).Load(t, peer))))
	for _, s := range systems {
		want := slices.Clone(documented[s.pkg])
		if s.pkg == "reconciler" {
			want = append(want, peers...)
		}
		assert.Empty(t, differences(want, s.theirs()), s.title)
	}
}

// differences returns the names that are missing in have, that are in it twice, and that are not in want.
func differences(want, have []string) (problems []string) {
	seen := map[string]int{}
	for _, name := range have {
		if seen[name]++; seen[name] > 1 {
			problems = append(problems, name+" is mapped twice")
		}
		if !slices.Contains(want, name) {
			problems = append(problems, name+" is not a name of that system")
		}
	}
	for _, name := range want {
		if seen[name] == 0 {
			problems = append(problems, name+" is not mapped")
		}
	}
	return problems
}

// The names of package reconciler are used by the programs of internal/tests/dropin:
// TestProgramsUseEveryExportedName checks that.
func TestEveryNameHereExistsAndIsUsed(t *testing.T) {
	l := newLoader(t)
	for _, s := range systems {
		var u *usage
		if s.pkg != "reconciler" {
			used := l.usesOf(t, packages[s.pkg])
			u = &used
		}
		for _, problem := range problemsOf(t, l, s.ours(), u) {
			t.Errorf("%s: %s", s.title, problem)
		}
	}
}

// problemsOf returns the names that do not exist or, unless u is nil, that u does not use.
func problemsOf(t *testing.T, l loader, names []string, u *usage) (problems []string) {
	for _, name := range names {
		switch obj := l.find(t, name); {
		case obj == nil:
			problems = append(problems, name+" does not exist")
		case u != nil && !u.uses(obj):
			problems = append(problems, name+" is used by no test")
		}
	}
	return problems
}

// The tests below check the checks: they must find mistakes.

func TestBadRowsAreRejected(t *testing.T) {
	const because = "because"
	for want, r := range map[string]row{
		`"alike" is not a relation`:                            {"A", "B", "alike", because},
		"a row is new if and only if it has no name there":     {"", "B", adapted, because},
		"a row is left out if and only if it has no name here": {"A", "", adapted, because},
		"the reason is missing":                                {"A", "B", adapted, ""},
		"a | would end the cell of the table":                  {"A", "B", adapted, "this | that"},
		"":                                                     {"A", "B", adapted, because},
	} {
		assert.Equal(t, want, r.check())
	}
	assert.NotEmpty(t, row{"A", "B", added, because}.check())
	assert.NotEmpty(t, row{"A", "B", leftOut, because}.check())
	assert.Empty(t, row{"", "B", added, because}.check())
	assert.Empty(t, row{"A", "", leftOut, because}.check())
}

func TestUnmappedAndUnknownNamesAreReported(t *testing.T) {
	s := system{
		pkg:  "request",
		same: []string{"A: B, C"},
		rows: []row{{"D, E.F", "G; event.H: I", adapted, "because"}},
	}
	require.Equal(t, []string{"A", "A.B", "A.C", "D", "E.F"}, s.theirs())
	require.Equal(t, []string{"request.A", "request.A.B", "request.A.C", "request.G", "event.H", "event.H.I"}, s.ours())
	require.Equal(t, []string{"A.C is not a name of that system", "X is not mapped"},
		differences([]string{"A", "A.B", "D", "E.F", "X"}, s.theirs()))
	require.Equal(t, []string{"A is mapped twice"}, differences([]string{"A"}, []string{"A", "A"}))
}

func TestMissingAndUnusedNamesAreReported(t *testing.T) {
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
	here := strings.Fields("request.Result request.Result.Requeue request.Reconciler.Reconcile request.Controller.Add " +
		"request.Result.RequeueAfter request.Func.Reconcile request.Controller.Loop request.New request.None")
	require.Equal(t, []string{
		"request.Result.RequeueAfter is used by no test", "request.Func.Reconcile is used by no test",
		"request.Controller.Loop is used by no test", "request.New is used by no test", "request.None does not exist",
	}, problemsOf(t, l, here, &u))
}
