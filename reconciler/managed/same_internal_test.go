// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"testing"

	"github.com/stretchr/testify/require"
)

type comparedRow struct {
	Meta
	Size  int8
	Wide  int64
	Text  string
	Parts []string
	More  map[string]int
}

func TestAShallowCopyIsUntouchedUntilSomethingIsSetOnIt(t *testing.T) {
	same := untouched[*comparedRow]()
	row := &comparedRow{Size: 1, Wide: 2, Text: "a", Parts: []string{"b"}, More: map[string]int{"c": 1}}
	row.SetAnnotation("d", "e")
	for name, set := range map[string]func(r *comparedRow){
		"size":       func(r *comparedRow) { r.Size++ },
		"wide":       func(r *comparedRow) { r.Wide++ },
		"text":       func(r *comparedRow) { r.Text = "b" },
		"parts":      func(r *comparedRow) { r.Parts = append(r.Parts, "c") },
		"other map":  func(r *comparedRow) { r.More = map[string]int{"c": 2} },
		"annotation": func(r *comparedRow) { r.SetAnnotation("d", "f") },
		"condition":  func(r *comparedRow) { r.SetConditions(Available()) },
		"finalizer":  func(r *comparedRow) { r.SetFinalizers([]string{"g"}) },
	} {
		t.Run(name, func(t *testing.T) {
			clone := *row
			require.True(t, same(&clone, row))
			set(&clone)
			require.False(t, same(&clone, row))
		})
	}
	require.True(t, same(row, row))
	require.False(t, same(nil, row))
	require.True(t, same(nil, nil))
}

func TestRowsThatAreNoPointersAreComparedInFull(t *testing.T) {
	same := untouched[comparedRow]()
	row := comparedRow{Text: "a"}
	require.False(t, same(row, row))
}
