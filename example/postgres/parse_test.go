// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheExampleIsAFileOfEachKind(t *testing.T) {
	data, err := os.ReadFile("roles/shop.yaml")
	require.NoError(t, err)
	entries, err := parse("shop.yaml", data)
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Object.Key()+" "+e.Object.Spec)
	}
	require.Equal(t, []string{
		"role/shop LOGIN CONNECTION LIMIT 50", "role/readers CONNECTION LIMIT -1", "role/reporting LOGIN CONNECTION LIMIT -1",
		"membership/reporting/readers ", "membership/reporting/pg_monitor ", "database/shop shop",
		"grant/readers/shop CONNECT", "grant/reporting/shop CONNECT, TEMPORARY",
	}, got)
	require.Equal(t, 4, entries[2].Line)
	require.Equal(t, 3, entries[2].Column)
}

func TestEachMistakeInAFileIsNamedWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "the file is empty: write {} for nothing",
		"{}\n---\n{}":                   "the file goes on after ---: make that a file of its own",
		"roles:\n- {name: a, nam: b}":   "unmarshal errors:\n  f:2: field nam not found in type struct",
		"roles: [{name: a}":             "f:1: did not find expected",
		"roles: [{}]":                   `f:1:9: no name of a role: ""`,
		"roles: [{name: a b}]":          `f:1:9: no name of a role: "a b"`,
		"roles: [{name: pg_x}]":         `f:1:9: no name of a role: "pg_x"`,
		"roles: [{name: a}, {name: a}]": `f:1:20: role/a is there twice`,
		"roles: [{name: a, options: [SUPERUSER]}]":                       `f:1:9: "SUPERUSER" is none of NOINHERIT, CREATEROLE`,
		"roles: [{name: a, limit: -2}]":                                  `f:1:9: the limit of role "a" is -2, must be -1 for none, or more`,
		"roles: [{name: a, password: x}]":                                `f:1:9: the password of role "a" must be a verifier, SCRAM-SHA-256$...`,
		"roles: [{name: a, in: [a]}]":                                    `f:1:9: role "a" cannot be in "a"`,
		"databases: [{name: d}]":                                         `f:1:13: no name of the owner of database "d": ""`,
		"databases: [{owner: a, name: " + strings.Repeat("d", 43) + "}]": "no name of a database",
		"databases: [{name: d, owner: a, grants: {a: [CONNECT]}}]":       `nothing can be granted to "a", the owner has all`,
		"databases: [{name: d, owner: a, grants: {b: []}}]":              `there are no privileges for "b"`,
		"databases: [{name: d, owner: a, grants: {b: [SELECT]}}]":        `"SELECT" is none of CONNECT, CREATE, TEMPORARY`,
		"roles: [{name: A}]\ndatabases:\n- {name: D, owner: a}":          "f:1:9: no name of a role: \"A\"\nf:3:3: no name of a database: \"D\"",
	} {
		_, err := parse("f", []byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestTheProgramHasAtMost600Lines(t *testing.T) {
	lines := 0
	for _, pattern := range []string{"*.go", "*.sql", "roles/*"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			n := strings.Count(string(text), "\n")
			t.Logf("%4d %s", n, name)
			lines += n
		}
	}
	require.LessOrEqual(t, lines, 600)
}
