// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ring

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The model is the whole sequence; the ring has the end of it.
func TestRandomWalkAgreesWithTheWholeSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 6).Draw(t, "size")
		r := New[int](size)
		var all []int
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				value := rapid.IntRange(1, 1000).Draw(t, "value")
				slot := r.Next()
				if size == 0 {
					require.Nil(t, slot)
				} else {
					displaced := 0
					if len(all) >= size {
						displaced = all[len(all)-size]
					}
					require.Equal(t, displaced, *slot, "the slot holds the value that is displaced")
					*slot = value
				}
				all = append(all, value)
			},
			"": func(t *rapid.T) {
				require.Equal(t, uint64(len(all)), r.Added())
				held := all[len(all)-min(size, len(all)):]
				require.Equal(t, uint64(len(all)-len(held)), r.First())
				var got []int
				for n := r.First(); n < r.Added(); n++ {
					got = append(got, r.At(n))
				}
				require.Equal(t, len(held), len(got))
				for i := range held {
					require.Equal(t, held[i], got[i], "value number %d", r.First()+uint64(i))
				}
			},
		})
	})
}

func TestAddingAllocatesNothing(t *testing.T) {
	r := New[[4]int](100)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		r.Next()[0] = int(r.Added())
	}))
	require.Equal(t, uint64(100), r.Added()-r.First())
}
