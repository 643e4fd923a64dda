// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The model is a slice into which an entry goes behind those that owe no later change,
// whatever the order in which entries come and go.
func TestRevisionListAgreesWithASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list revisionList[row]
		var model []*entry[row]
		insert := func(t *rapid.T) {
			e := &entry[row]{since: rapid.Uint64Range(1, 9).Draw(t, "since")}
			list.insert(e)
			model = append(model, e)
			slices.SortStableFunc(model, func(a, b *entry[row]) int { return cmp.Compare(a.since, b.since) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert":       insert,
			"insert again": insert,
			"remove": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				e := model[i]
				list.remove(e)
				list.remove(e) // does nothing
				model = slices.Delete(model, i, i+1)
				require.False(t, e.listed)
				require.Nil(t, e.prev)
				require.Nil(t, e.next)
			},
			"": func(t *rapid.T) {
				var forth, back []*entry[row]
				for e := list.head; e != nil && len(forth) <= len(model); e = e.next {
					require.True(t, e.listed)
					forth = append(forth, e)
				}
				for e := list.tail; e != nil && len(back) <= len(model); e = e.prev {
					back = append(back, e)
				}
				slices.Reverse(back)
				require.True(t, slices.Equal(model, forth), "forth")
				require.True(t, slices.Equal(model, back), "back")
			},
		})
	})
}
