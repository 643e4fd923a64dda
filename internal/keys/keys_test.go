// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package keys_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/keys"
)

type row struct{ name string }

func (r *row) TableHeader() []string { return []string{"Name"} }
func (r *row) TableRow() []string    { return []string{r.name} }

func TestKeysAndQueriesFindTheRow(t *testing.T) {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", statedb.Index[*row, string]{
		Name: "name", FromObject: func(r *row) index.KeySet { return keys.Set(index.String(r.name)) },
		FromKey: index.String, FromString: index.FromString, Unique: true,
	})
	require.NoError(t, err)
	a := &row{name: "a"}
	wtxn := db.WriteTxn(table)
	_, _, err = table.Insert(wtxn, a)
	require.NoError(t, err)
	txn := wtxn.Commit()

	indexer := table.PrimaryIndexer()
	require.Equal(t, index.String("a"), keys.Of(indexer, a))
	found, _, ok := table.Get(txn, keys.Query(indexer, &row{name: "a"}))
	require.True(t, ok)
	require.Same(t, a, found)
	found, _, ok = table.Get(txn, keys.QueryOfKey(indexer)(index.String("a")))
	require.True(t, ok)
	require.Same(t, a, found)
	key, err := keys.Reader(indexer)("a")
	require.NoError(t, err)
	require.Equal(t, index.String("a"), key)
}

func TestReaderIsNilForAnIndexWithoutFromString(t *testing.T) {
	require.Nil(t, keys.Reader(statedb.Index[*row, string]{}))
	require.Nil(t, keys.Reader(&row{}))
	require.Nil(t, keys.Reader(row{}))
}

// keys.go must be the only file of this module that calls what statedb v0.9 changes.
func TestOnlyKeysCallsWhatStatedbChanges(t *testing.T) {
	changed := []string{"ObjectToKey", "QueryFromObject", "NewKeySet"}
	calls := map[string][]string{}
	const root = "../.."
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root || entry.Name() == "testdata" || entry.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(changed, s.Sel.Name) {
				calls[name] = append(calls[name], s.Sel.Name)
			}
			return true
		})
		return nil
	}))
	require.Equal(t, map[string][]string{"internal/keys/keys.go": changed}, calls)
}
