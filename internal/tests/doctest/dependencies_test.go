// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The list is for users who have to approve the licences of everything they link.
func TestListOfDependenciesIsCurrent(t *testing.T) {
	root := projectRoot(t)
	var want []string
	for module, dir := range linked(t, root) {
		want = append(want, fmt.Sprintf("| %s | %s |", module, licenceOf(t, dir)))
	}
	slices.Sort(want)
	page, err := os.ReadFile(filepath.Join(root, "docs", "LIBRARIES.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n| --- | --- |\n")
	require.True(t, found)
	assert.Equal(t, strings.Join(want, "\n"), strings.TrimSpace(table))
}

// linked returns the modules, with their folders, that the importable packages of this module depend on.
func linked(t *testing.T, root string) map[string]string {
	var packages []string
	for _, path := range goList(t, root, "./...") {
		if !strings.Contains(path, "/internal/") {
			packages = append(packages, path)
		}
	}
	modules := map[string]string{}
	const format = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}"
	for _, line := range goList(t, root, append([]string{"-deps", "-f", format}, packages...)...) {
		path, dir, _ := strings.Cut(line, " ")
		modules[path] = dir
	}
	return modules
}

// goList returns the lines of the output of go list.
func goList(t *testing.T, dir string, args ...string) []string {
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err, args)
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// licenceOf returns the SPDX name of the licence in a folder.
func licenceOf(t *testing.T, dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "LICENSE*"))
	require.NoError(t, err)
	require.Len(t, files, 1, dir)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	text := strings.Join(strings.Fields(string(data)), " ")
	for _, licence := range []struct{ name, phrase string }{
		{"MIT and Apache-2.0", "This project is covered by two different licenses: MIT and Apache."},
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MPL-2.0", "Mozilla Public License, version 2.0"},
		{"MIT", "Permission is hereby granted, free of charge"},
		{"ISC", "Permission to use, copy, modify, and"},
		{"BSD-3-Clause", "may be used to endorse or promote products"},
		{"BSD-2-Clause", "Redistributions in binary form must reproduce"},
	} {
		if strings.Contains(text, licence.phrase) {
			return licence.name
		}
	}
	require.Fail(t, "unknown licence", files[0])
	return ""
}
