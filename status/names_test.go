// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withFreshLists gives the test an empty store of interned lists with the given number of bytes
// taken.
func withFreshLists(t *testing.T, taken int) {
	oldNone, oldLists, oldBytes := noNames, lists, listsBytes
	t.Cleanup(func() { noNames, lists, listsBytes = oldNone, oldLists, oldBytes })
	noNames, lists, listsBytes = &nameList{interned: true}, map[string]*nameList{}, taken
}

func listOf(names ...string) *nameList {
	return NewSet(names...).names()
}

func TestEqualNamesHaveOneListWhateverTheOrder(t *testing.T) {
	withFreshLists(t, 0)
	names := strings.Fields("i h g f e d c b a")
	want := listOf(names...)
	assert.True(t, slices.IsSorted(want.names))
	for range 100 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		assert.Same(t, want, listOf(names...))
	}
	assert.Same(t, want, listOf(append(names, "j", "k")...).without(t, "k", "j"))
}

// without returns the list of a Set after Set.Delete.
func (l *nameList) without(t *testing.T, names ...string) *nameList {
	set := Set{list: l, entries: make([]entry, len(l.names))}
	for _, name := range names {
		set = set.Delete(name)
	}
	require.Len(t, set.entries, len(set.names().names))
	return set.names()
}

// Names can come from outside, so memory must not grow with their number.
func TestInternedListsStayWithinTheBudget(t *testing.T) {
	withFreshLists(t, 0)
	for i := range 100_000 {
		listOf(fmt.Sprint("object-", i))
	}
	assert.LessOrEqual(t, listsBytes, internBudget)
	assert.Less(t, len(lists), 50_000)
	assert.LessOrEqual(t, len(*noNames.with.Load()), maxNeighbours)
	total := 0
	for key, list := range lists {
		total += len(key) + len(list.names[0])
	}
	assert.Less(t, total, internBudget)
}

func TestSetsWorkWhenTheBudgetIsSpent(t *testing.T) {
	withFreshLists(t, internBudget)
	set := NewSet("b").Set("a", Done()).Set("c", Pending())
	assert.Equal(t, []string{"a", "b", "c"}, set.names().names)
	assert.Equal(t, KindDone, set.Get("a").Kind)
	assert.Equal(t, KindPending, set.Get("b").Kind)
	assert.Equal(t, []string{"a", "c"}, set.Delete("b").names().names)
	assert.NotSame(t, listOf("a"), listOf("a"))
	assert.Empty(t, lists)
	assert.Nil(t, set.names().with.Load(), "a list that is not kept must not keep others")
	assert.Nil(t, noNames.with.Load(), "a kept list must not keep one that was over the budget")
}

func TestListsFoundByManyGoroutinesAtOnceAreTheSame(t *testing.T) {
	withFreshLists(t, 0)
	const goroutines = 8
	names := strings.Fields("a b c d e f g h i j")
	lists := make([]*nameList, goroutines)
	var wg sync.WaitGroup
	for g := range lists {
		wg.Go(func() {
			for range 200 {
				set := Set{}
				for _, i := range rand.Perm(len(names)) {
					set = set.Set(names[i], Done())
				}
				lists[g] = set.names()
			}
		})
	}
	wg.Wait()
	for _, list := range lists {
		assert.Same(t, lists[0], list)
	}
}

func TestNamesDoNotPinTheTextTheyWereCutFrom(t *testing.T) {
	withFreshLists(t, 0)
	text := strings.Repeat("x", 1<<20)
	list := listOf(text[:4])
	assert.Equal(t, "xxxx", list.names[0])
	assert.NotSame(t, unsafe.StringData(text), unsafe.StringData(list.names[0]))
}
