// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/statekeel/statekeel/status"
)

// modelNames are the names that walks use: more than a linear search is used for.
var modelNames = strings.Fields("device route sysctl bpf proxy dns nat lb a b c d")

// modelSet is a model of Set on a map.
type modelSet struct {
	entries map[string]status.Status
	missing status.Status
}

func (m modelSet) with(name string, st status.Status) modelSet {
	m.entries = maps.Clone(m.entries)
	m.entries[name] = st
	return m
}

func (m modelSet) get(name string) status.Status {
	if st, found := m.entries[name]; found {
		return st
	}
	return m.missing
}

func (m modelSet) isDone() bool {
	done := true
	for _, st := range m.entries {
		done = done && st.Kind == status.KindDone
	}
	return done
}

func (m modelSet) isPendingOrRefreshing() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(m.entries)), status.Status.IsPendingOrRefreshing)
}

// pair is a Set of the walk and its model, which must stay equal whatever is derived from it.
type pair struct {
	set   status.Set
	model modelSet
}

func (p pair) check(t *rapid.T) {
	all := maps.Collect(p.set.All())
	require.Equal(t, p.model.entries, all)
	for _, name := range append([]string{"unknown", ""}, modelNames...) {
		require.Equal(t, p.model.get(name), p.set.Get(name), name)
	}
	require.Equal(t, p.model.isDone(), p.set.IsDone())
	require.Equal(t, p.model.isPendingOrRefreshing(), p.set.IsPendingOrRefreshing())
	for name := range p.set.All() {
		require.Equal(t, slices.Min(slices.Collect(maps.Keys(all))), name)
		break // which must be possible
	}
}

// walk is a random walk over Sets. It keeps all the Sets it has made.
type walk struct {
	pairs   []pair
	idsSeen map[uint64]bool
}

func (w *walk) pick(t *rapid.T) pair {
	return w.pairs[rapid.IntRange(0, len(w.pairs)-1).Draw(t, "from")]
}

func (w *walk) push(set status.Set, model modelSet) {
	w.pairs = append(w.pairs, pair{set, model})
}

// fresh is the status that a Set with a new ID returns for unknown reconcilers.
func (w *walk) fresh(t *rapid.T, set status.Set) status.Status {
	st := set.Get("unknown")
	require.Equal(t, status.KindPending, st.Kind)
	require.Nil(t, st.Error)
	require.True(t, time.Now().Equal(st.UpdatedAt))
	require.False(t, w.idsSeen[st.ID], "ID %d is not fresh", st.ID)
	w.idsSeen[st.ID] = true
	return st
}

// allPending gives each of the names the same status.
func allPending[Names ~[]string](names Names, st status.Status) map[string]status.Status {
	entries := map[string]status.Status{}
	for _, name := range names {
		entries[name] = st
	}
	return entries
}

func (w *walk) newSet(t *rapid.T) {
	names := drawNames(t)
	set := status.NewSet(names...)
	missing := w.fresh(t, set)
	w.push(set, modelSet{allPending(names, missing), missing})
}

func (w *walk) setStatus(t *rapid.T) {
	from, name, st := w.pick(t), drawName(t), drawStatus(t)
	w.push(from.set.Set(name, st), from.model.with(name, st))
}

func (w *walk) pending(t *rapid.T) {
	from, names := w.pick(t), drawNames(t)
	set := from.set.Pending(names...)
	missing := w.fresh(t, set)
	w.push(set, modelSet{allPending(append(slices.Collect(maps.Keys(from.model.entries)), names...), missing), missing})
}

func (w *walk) delete(t *rapid.T) {
	from, name := w.pick(t), drawName(t)
	model := from.model
	model.entries = maps.Clone(model.entries)
	delete(model.entries, name)
	w.push(from.set.Delete(name), model)
}

func (w *walk) readBack(t *rapid.T) {
	from, into := w.pick(t), w.pick(t).set
	name, st := rapid.String().Draw(t, "name"), drawStatus(t)
	from = pair{from.set.Set(name, st), from.model.with(name, st)}
	codec := rapid.SampledFrom(codecs).Draw(t, "codec")
	if !codec.carries(from.model.entries) {
		t.Skip("not the Set's to carry")
	}
	data, err := codec.marshal(from.set)
	require.NoError(t, err)
	require.NoError(t, codec.unmarshal(data, &into), "%s", data)
	w.push(into, modelSet{from.model.entries, w.fresh(t, into)})
}

func TestSetMeansWhatAMapDoes(t *testing.T) {
	checkAtOneTime(t, func(t *rapid.T) {
		w := &walk{idsSeen: map[uint64]bool{0: true}}
		w.push(status.Set{}, modelSet{map[string]status.Status{}, status.Status{Kind: status.KindPending}})
		t.Repeat(map[string]func(*rapid.T){
			"NewSet":   w.newSet,
			"Set":      w.setStatus,
			"Pending":  w.pending,
			"Delete":   w.delete,
			"readBack": w.readBack,
			"":         func(t *rapid.T) { w.pairs[len(w.pairs)-1].check(t) },
		})
		for _, p := range w.pairs {
			p.check(t)
		}
	})
}

func drawName(t *rapid.T) string { return rapid.SampledFrom(modelNames).Draw(t, "name") }

func drawNames(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.SampledFrom(modelNames), 0, 4).Draw(t, "names")
}

// drawStatus draws a status as a Set returns it.
func drawStatus(t *rapid.T) status.Status {
	st := status.Status{
		ID:   rapid.Uint64().Draw(t, "id"),
		Kind: rapid.SampledFrom(allKinds).Draw(t, "kind"),
	}
	if rapid.Bool().Draw(t, "has time") {
		// The years up to 2262, without the first day, which time zones may move below 1678.
		day := int64(24 * time.Hour)
		st.UpdatedAt = time.Unix(0, rapid.Int64Range(-day*365*200, 1<<63-1-day).Draw(t, "time"))
	}
	if rapid.Bool().Draw(t, "has text") {
		text := rapid.String().Draw(t, "text")
		st.Error = &text
	}
	return st
}
