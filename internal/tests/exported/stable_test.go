// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package exported

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStableNamesExist(t *testing.T) {
	page, err := os.ReadFile("../../../docs/STABILITY.md")
	require.NoError(t, err)
	listed, err := os.ReadFile("testdata/names.txt")
	require.NoError(t, err)
	_, stable, _ := strings.Cut(string(page), "## Stable")
	stable, _, _ = strings.Cut(stable, "## The rest")
	names, owner := strings.Fields(strings.ReplaceAll(string(listed), "()", "")), ""
	found := 0
	for _, word := range regexp.MustCompile("`[^`]+`:?").FindAllString(stable, -1) {
		name := strings.Trim(word, "`:")
		if !strings.Contains(name, ".") {
			name = owner + "." + name
		}
		require.True(t, slices.Contains(names, name), name)
		if strings.HasSuffix(word, ":") {
			owner = name
		}
		found++
	}
	require.Greater(t, found, 30)
}
