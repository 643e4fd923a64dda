// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package exported

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStableNamesExist(t *testing.T) {
	listed, err := os.ReadFile("testdata/names.txt")
	require.NoError(t, err)
	names := strings.Fields(strings.ReplaceAll(string(listed), "()", ""))
	stable := stableNames(t)
	require.Greater(t, len(stable), 50)
	for _, name := range stable {
		assert.Contains(t, names, name)
	}
}

// stableNames returns the names of the stable ring of docs/STABILITY.md: "reconciler.Loop", "reconciler.Loop.Run".
func stableNames(t *testing.T) (names []string) {
	page, err := os.ReadFile("../../../docs/STABILITY.md")
	require.NoError(t, err)
	_, stable, _ := strings.Cut(string(page), "## Stable")
	_, stable, _ = strings.Cut(stable, "\n- ")
	stable, _, found := strings.Cut(stable, "## The rest")
	require.True(t, found)
	owner := ""
	for _, word := range regexp.MustCompile("`[^`]+`:?").FindAllString(stable, -1) {
		name := strings.Trim(word, "`:")
		if !strings.Contains(name, ".") {
			name = owner + "." + name
		}
		if strings.HasSuffix(word, ":") {
			owner = name
		}
		names = append(names, name)
	}
	return names
}

func TestPackageCommentBeginsWithTheStableNames(t *testing.T) {
	var want []string
	for _, name := range stableNames(t) {
		if name, ok := strings.CutPrefix(name, "reconciler."); ok {
			want = append(want, name)
		}
	}
	var got []string
	for _, match := range regexp.MustCompile(`\[([A-Z][\w.]*)\]`).FindAllStringSubmatch(parse(t, "doc.go").Doc.Text(), -1) {
		if got = append(got, match[1]); !slices.Contains(want, match[1]) {
			break // the rest
		}
	}
	assert.Subset(t, got, want)
}

// What a new program has no use for must not be stable by another name than that of the peer.
func TestFileForThePeerHasNoStableName(t *testing.T) {
	stable, found := stableNames(t), 0
	ast.Inspect(parse(t, "peer.go"), func(n ast.Node) bool {
		var names []*ast.Ident
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = []*ast.Ident{n.Name}
		case *ast.TypeSpec:
			names = []*ast.Ident{n.Name}
		case *ast.ValueSpec:
			names = n.Names
		}
		for _, name := range names {
			assert.NotContains(t, stable, "reconciler."+name.Name)
			found++
		}
		return true
	})
	require.Greater(t, found, 25)
}

// parse parses a file of package reconciler.
func parse(t *testing.T, name string) *ast.File {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../reconciler/"+name, nil, parser.ParseComments)
	require.NoError(t, err)
	return file
}
