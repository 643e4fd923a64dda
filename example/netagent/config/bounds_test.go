// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A problem takes a few bytes of a file, or none where an alias repeats it.
func TestListOfProblemsIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"bad aliases":       "links: [&a {x: 1}" + strings.Repeat(",*a", 5_000) + "]",
		"the same address":  "addresses: [&a {dev: br0, cidr: 10.0.0.1/24}" + strings.Repeat(",*a", 5_000) + "]",
		"aliases of many":   "links: [&a {" + strings.Repeat("? x\n,", 10_000) + "}" + strings.Repeat(",*a", 20_000) + "]",
		"an alias in a key": "links: [&a {&n " + strings.Repeat("x", 100_000) + ": 1}" + strings.Repeat(",*a", 10_000) + "]",
		"a long text":       "links: [{name: &n " + strings.Repeat("x", 100_000) + ", kind: *n}" + strings.Repeat(",{name: *n}", 4_000) + "]",
		"bad sysctls":       "sysctls: {" + strings.Repeat("? x\n,", 30_000) + "}",
	} {
		_, err := Parse("f", []byte(text))
		var problems Problems
		require.True(t, errors.As(err, &problems), name)
		assert.LessOrEqual(t, len(problems), maxProblems, name)
		assert.LessOrEqual(t, len(err.Error()), maxProblems*(maxMessage+100), name)
	}
}

func TestFirstHundredProblemsAreListed(t *testing.T) {
	_, err := Parse("f", []byte("links: ["+strings.Repeat("a,\n", maxProblems+1)+"]"))
	text := err.Error()
	assert.True(t, strings.HasPrefix(text, "f:1:9: link: a mapping is needed\n"), text)
	assert.True(t, strings.HasSuffix(text, "\nf:100:1: link: a mapping is needed"), text)
}
