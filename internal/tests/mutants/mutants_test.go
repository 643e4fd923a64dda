// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
)

// A list that no longer fits the code would say nothing about the tests.
func TestEveryMutantChangesItsFile(t *testing.T) {
	const root = "../../.."
	mutants, err := readAll(root)
	require.NoError(t, err)
	require.NotEmpty(t, mutants)
	_, err = weave(root, t.TempDir(), mutants)
	require.NoError(t, err)
}

// One that does not compile ends a run of all of them.
func TestEveryMutantCompiles(t *testing.T) {
	long.Only(t)
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	mutants, err := readAll(root)
	require.NoError(t, err)
	overlay, err := weave(root, t.TempDir(), mutants)
	require.NoError(t, err)
	packages := map[string]map[string]bool{}
	for _, m := range mutants {
		if packages[m.module] == nil {
			packages[m.module] = map[string]bool{}
		}
		folder, err := filepath.Rel(filepath.Join(root, m.module), filepath.Join(root, filepath.Dir(m.file)))
		require.NoError(t, err)
		// The code of another module is compiled with its users.
		if filepath.IsLocal(folder) {
			packages[m.module]["./"+folder] = true
		}
	}
	for module, folders := range packages {
		command := exec.Command("go", slices.Insert(slices.Sorted(maps.Keys(folders)), 0, "build", "-overlay", overlay)...)
		command.Dir = filepath.Join(root, module)
		output, err := command.CombinedOutput()
		assert.NoError(t, err, "module %q: %s", module, output)
	}
}

// The tool itself: a broken promise is noticed by its test, and a change that breaks nothing survives.
func TestBrokenPromiseIsKilledAndHarmlessChangeSurvives(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	write("go.mod", "module sum\n\ngo 1.26\n")
	write("sum.go", `package sum

type none struct{}

func sum(a, b int) int {
	return a + b
}

func (none) last(_ string, of ...int) int { return of[len(of)-1] }

func zero[N int | uint]() (n N) {
	return n
}
`)
	write("sum_test.go", `package sum

import "testing"

func TestTwoAndTwo(t *testing.T) {
	if sum(2, 2) != 4 {
		t.Fatal()
	}
}

func TestLast(t *testing.T) {
	if (none{}).last("", 1, 2) != 2 {
		t.Fatal()
	}
}

func TestZero(t *testing.T) {
	if zero[uint]() != 0 {
		t.Fatal()
	}
}
`)
	mutants, err := parse(`# Two change one line.
mutant: minus
promise: sum adds
file: sum.go
tests: .
-	return a + b
+	return a - b

mutant: other-order
promise: sum adds
file: sum.go
tests: .
-	return a + b
+	return b + a

mutant: first
promise: last returns the last
file: sum.go
tests: .
-func (none) last(_ string, of ...int) int { return of[len(of)-1] }
+func (none) last(_ string, of ...int) int { return of[0] }

mutant: one
promise: zero returns zero
file: sum.go
tests: .
-	return n
+	return n + 1
`)
	require.NoError(t, err)
	require.Len(t, mutants, 4)
	folder := t.TempDir()
	overlay, err := weave(root, folder, mutants)
	require.NoError(t, err)
	compiled := tests{root: root, folder: folder, overlay: overlay, binaries: map[string]string{}}
	for i, want := range []string{"TestTwoAndTwo", survived, "TestLast", "TestZero"} {
		verdict, killed, err := compiled.try(i+1, &mutants[i])
		require.NoError(t, err)
		assert.Equal(t, want, verdict)
		assert.Equal(t, want != survived, killed)
	}
}
