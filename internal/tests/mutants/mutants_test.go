// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// The tool itself: a broken promise is noticed by its test, and a change that breaks nothing survives.
func TestBrokenPromiseIsKilledAndHarmlessChangeSurvives(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o600))
	}
	write("go.mod", "module sum\n\ngo 1.26\n")
	write("sum.go", "package sum\n\nfunc sum(a, b int) int {\n\treturn a + b\n}\n")
	write("sum_test.go", "package sum\n\nimport \"testing\"\n\n"+
		"func TestTwoAndTwo(t *testing.T) {\n\tif sum(2, 2) != 4 {\n\t\tt.Fatal()\n\t}\n}\n")
	mutants, err := parse(`# Both change the same line.
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

mutant: broken
promise: none
file: sum.go
tests: .
-	return a + b
`)
	require.NoError(t, err)
	require.Len(t, mutants, 3)

	verdict, killed := mutants[0].try(root)
	assert.True(t, killed)
	assert.Equal(t, "TestTwoAndTwo", verdict)
	verdict, killed = mutants[1].try(root)
	assert.False(t, killed)
	assert.Equal(t, survived, verdict)
	verdict, killed = mutants[2].try(root)
	assert.False(t, killed, "what does not compile proves nothing")
	assert.Contains(t, verdict, "DOES NOT COMPILE")
}
