// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzParseListsProblems(f *testing.F) {
	f.Add([]byte(base))
	f.Add([]byte("links: &a [*a]\n"))
	f.Add([]byte("? [a]\n: b\n"))
	f.Add([]byte("links: [{name: {}, kind: !!binary x}]\n<<: *x"))
	f.Add([]byte("links: [&a {x: 1}, *a, *a]\nroutes: [[\n\"\n"))
	f.Add([]byte(`{"dst": "10.1.0.0/16", "via": "10.0.0.2"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		state, err := Parse("f", data)
		checkProblems(t, data, err)
		if err == nil {
			assert.NoError(t, state.Check(), "a checked state is valid")
		}
		_, err = ParseLink("f", data)
		checkProblems(t, data, err)
		_, err = ParseAddress("f", data)
		checkProblems(t, data, err)
		_, err = ParseRoute("f", data)
		checkProblems(t, data, err)
		_, err = ParseSysctl("f", data)
		checkProblems(t, data, err)
	})
}

// checkProblems requires an error to be a bounded list of problems, with positions in the file: of a syntax error, if the
// YAML package names the line.
func checkProblems(t *testing.T, data []byte, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var problems Problems
	require.ErrorAs(t, err, &problems)
	require.NotEmpty(t, problems)
	assert.LessOrEqual(t, len(problems), maxProblems)
	for _, p := range problems {
		assert.True(t, p.Line >= 0 && p.Message != "", "%v", p)
		assert.LessOrEqual(t, p.Line, 1+strings.Count(string(data), "\n")+strings.Count(string(data), "\r")+
			strings.Count(string(data), "\u0085")+strings.Count(string(data), "\u2028")+strings.Count(string(data), "\u2029"), "%v", p)
		assert.LessOrEqual(t, len(p.Message), maxMessage+len("..."))
	}
}
