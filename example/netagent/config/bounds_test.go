// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestSearchForASyntaxErrorIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		line int
	}{
		"after lists of many lines": {"links:\n" + strings.Repeat("- [\n"+strings.Repeat("a,\n", 100)+"  ]\n", 300) + "a: b: c\n", 30602},
		"after texts of two lines":  {"links:\n" + strings.Repeat("- \"a\n  b\"\n", 20000) + "a: b: c\n", 40002},
		"in a text without an end":  {strings.Repeat("- a\n", 1000) + "- \"b\n" + strings.Repeat("- a\n", 3000), 1001},
		"one that is too far back":  {"- \"b\n" + strings.Repeat("- a\n", 60_000), 60_001 - nearBy},
		"brackets":                  {strings.Repeat("[\n", 10_000), 1},
	} {
		data := []byte(test.text)
		lines := &lineReader{data: data}
		var n yaml.Node
		require.Error(t, yaml.NewDecoder(lines).Decode(&n), name)
		parsed := 0
		line, _ := firstBadLine(data, lines.read, func(beginning []byte) bool {
			parsed += len(beginning)
			return isYAML(beginning)
		})
		assert.LessOrEqual(t, parsed, searchBudget, name)
		assert.Equal(t, test.line, line, name)
	}
}

// A problem takes a few bytes of a file, or none where an alias repeats it.
func TestListOfProblemsIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"bad aliases":       "links: [&a {x: 1}" + strings.Repeat(",*a", 30_000) + "]",
		"the same address":  "addresses: [&a {dev: br0, cidr: 10.0.0.1/24}" + strings.Repeat(",*a", 30_000) + "]",
		"aliases of many":   "links: [&a {" + strings.Repeat("? x\n,", 10_000) + "}" + strings.Repeat(",*a", 20_000) + "]",
		"an alias in a key": "links: [&a {&n " + strings.Repeat("x", 100_000) + ": 1}" + strings.Repeat(",*a", 10_000) + "]",
		"a long text":       "links: [{name: &n " + strings.Repeat("x", 100_000) + ", kind: *n}" + strings.Repeat(",{name: *n}", 4_000) + "]",
		"bad sysctls":       "sysctls: {" + strings.Repeat("? x\n,", 30_000) + "}",
	} {
		_, err := Parse("f", []byte(text))
		var problems Problems
		require.True(t, errors.As(err, &problems), name)
		assert.LessOrEqual(t, len(problems), maxProblems+1, name)
		assert.LessOrEqual(t, len(err.Error()), (maxProblems+1)*(maxMessage+100), name)
	}
}

func TestCutListOfProblemsEndsWithANote(t *testing.T) {
	_, err := Parse("f", []byte("links: ["+strings.Repeat("a,\n", maxProblems+1)+"]"))
	text := err.Error()
	assert.True(t, strings.HasPrefix(text, "f:1:9: link: a mapping is needed, not \"a\"\n"), text)
	assert.True(t, strings.HasSuffix(text, "\nf:100:1: link: a mapping is needed, not \"a\"\nf:100:1: more problems follow; only 100 are listed"), text)
	_, err = Parse("f", []byte("links: ["+strings.Repeat("a,\n", maxProblems)+"]"))
	assert.NotContains(t, err.Error(), "more problems")
}
