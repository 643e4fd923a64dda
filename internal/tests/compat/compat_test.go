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

// The lists are of names only, one a line, written down by hand from the documentation. The names of the reconciler that
// can be imported are added: v0.9.4 has other names than the documentation.
func TestEveryNameThereIsMappedOnce(t *testing.T) {
	peers := slices.Collect(maps.Values(exported.Names(newLoader(t).Load(t, peer))))
	for _, s := range systems {
		want := documented(t, s.pkg)
		if s.pkg == "reconciler" {
			want = append(want, peers...)
		}
		assert.Empty(t, differences(want, s.theirs()), s.title)
	}
}

func TestOmittedNameIsMissed(t *testing.T) {
	for _, s := range systems {
		mapped := s.theirs()
		for _, name := range documented(t, s.pkg) {
			without := slices.DeleteFunc(slices.Clone(mapped), func(m string) bool { return m == name })
			assert.Contains(t, differences([]string{name}, without), name+" is not mapped", s.title)
		}
	}
}

// documented returns the names in the documentation of a system, by the package here.
func documented(t *testing.T, pkg string) (names []string) {
	t.Helper()
	list, err := os.ReadFile("testdata/" + pkg + ".txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	require.NotEmpty(t, names)
	return names
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
		if seen[name] == 0 && !slices.Contains(problems, name+" is not mapped") {
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
