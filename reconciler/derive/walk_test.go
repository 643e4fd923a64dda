// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

var walkSeed = flag.Uint64("walk.seed", 0, "the seed of the first walk; random if it is 0")

// walk writes random transactions into the input of two derivations, the second of which works on the
// output of the first, and compares the outputs with a full recomputation whenever both are idle. Meanwhile
// they stop and start, are paused and resumed, and are replaced; functions fail, hang and work again.
type walk struct {
	*env
	rand *rand.Rand
	best bool
	d    *derived
	next *derive.Derived[*route, *route]
	last statedb.RWTable[*route]
	stop [2]func()
	// paused are the derivations that are paused.
	paused [2]bool

	// broken: rows whose Fail begins with "broken" fail, and the others of them do not. gate is the row at
	// which the function hangs, nil for none. odd are the places of the output at which Same panics.
	broken atomic.Bool
	gate   atomic.Pointer[gate]
	odd    sync.Map

	// merges counts the calls of merge. faster are the places that were written in the last one.
	merges int
	faster map[string]bool

	// now is the input, good the version of each row that was derived last. Of a row that was written
	// since both were idle (touched), only a version that does not fail can have been derived.
	now, good map[string]*wish
	touched   map[string]bool
	// old is the output of the derivation before, and a row of another writer. They may stay while a row that the
	// present derivation has never derived fails; one that was derived to nothing is no such row.
	old map[string]route

	// must are the places that must be in the output at each commit: they were there when the derivations
	// were idle, and some row has wanted them all the time since. mustLast is the same for the last table.
	mu             sync.Mutex
	must, mustLast map[string]bool
	missing        []string
}

type gate struct {
	name   string
	opened chan struct{}
}

func TestOutputEqualsARecomputation(t *testing.T) {
	seed := *walkSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for i := range long.Times(20) {
		for _, best := range []bool{true, false} {
			t.Run(fmt.Sprintf("best=%t/seed=%d", best, seed+uint64(i)), func(t *testing.T) {
				inBubble(t, func(e *env) { newWalk(e, seed+uint64(i), best).run() })
			})
		}
	}
}

func newWalk(e *env, seed uint64, best bool) *walk {
	w := &walk{
		env: e, rand: rand.New(rand.NewPCG(seed, 0)), best: best,
		now: map[string]*wish{}, good: map[string]*wish{}, touched: map[string]bool{},
		must: map[string]bool{}, mustLast: map[string]bool{}, faster: map[string]bool{},
	}
	w.last = newTable(e, "last", byPlace)
	check := w.check
	e.commits.after.Store(&check)
	w.make()
	return w
}

// make makes the derivations.
func (w *walk) make() {
	w.cfg.Same = func(current, derived *route) bool {
		if w.isOdd(current.Place) {
			panic("odd place")
		}
		return current.From == derived.From && current.Metric == derived.Metric
	}
	w.cfg.Merge = w.merge
	if w.best {
		w.d = w.made(derive.Best(w.cfg, w.wishes, w.routes, w.routesOf, w.rankOf))
	} else {
		w.d = w.made(derive.Each(w.cfg, w.wishes, w.routes, w.routesOf))
	}
	w.paused = [2]bool{}
	w.d.SetMaxRows(1 + w.rand.IntN(4))
	next, err := derive.Best(derive.Config[*route]{DB: w.db}, w.routes, w.last, lastOf, metricOfRoute)
	require.NoError(w, err)
	next.SetMaxRows(1 + w.rand.IntN(4))
	w.next = next
}

// merge keeps the status, which another writer writes at the same time each third time. Then merge is called again
// with the table locked.
func (w *walk) merge(current, derived *route) *route {
	again := w.faster[current.Place]
	w.merges++
	if w.faster[current.Place] = !again && w.merges%3 == 0; w.faster[current.Place] {
		other := *current
		other.Status += "x"
		harness.Insert(w, w.db, w.routes, &other)
	}
	merged := *derived
	merged.Status = current.Status
	return &merged
}

func (w *walk) isOdd(place string) bool {
	_, odd := w.odd.Load(place)
	return odd
}

// fails reports whether the functions fail for a row now.
func (w *walk) fails(row *wish) bool {
	switch row.Fail {
	case "rank":
		return w.best && strings.TrimSpace(row.Places) != ""
	case "broken":
		return w.broken.Load()
	case "broken rank":
		return w.broken.Load() && w.best && strings.TrimSpace(row.Places) != ""
	}
	return row.Fail != ""
}

func (w *walk) routesOf(row *wish) ([]*route, error) {
	if g := w.gate.Load(); g != nil && g.name == row.Name {
		<-g.opened
	}
	if row.Fail == "broken" && w.broken.Load() {
		return nil, errors.New("broken")
	}
	return routesOf(row)
}

func (w *walk) rankOf(row *wish) float64 {
	if row.Fail == "broken rank" && w.broken.Load() {
		panic("broken")
	}
	return metricOf(row)
}

// lastOf makes two places of the last table from each place.
func lastOf(r *route) ([]*route, error) {
	n := len(r.Place) + int(r.Place[0])
	return []*route{
		{Place: fmt.Sprint("x", n%3), From: r.Place, Metric: r.Metric}, {Place: fmt.Sprint("y", n%5), From: r.Place, Metric: r.Metric},
	}, nil
}

func metricOfRoute(r *route) int { return r.Metric }

func (w *walk) run() {
	defer func() {
		w.halt(0)
		w.halt(1)
		w.next.Close()
	}()
	for range 60 {
		w.startAndStop()
		w.pauseAndResume()
		w.breakAndHeal()
		if w.rand.IntN(8) == 0 {
			w.prune()
		}
		if w.rand.IntN(5) == 0 {
			w.hang()
		} else {
			w.transaction()
		}
		if w.rand.IntN(3) > 0 {
			w.settle()
		}
	}
	for i := range w.stop {
		w.start(i)
		w.resume(i)
	}
	w.heal()
	w.settle()
	w.remove(slices.Collect(maps.Keys(w.now))...)
	rows, places := w.d.Tracked()
	require.Zero(w, rows+places, "nothing is remembered of rows that are gone")
}

// prune has the rows deleted that nothing derives, such as one of another writer.
func (w *walk) prune() {
	foreign := route{Place: "9", From: "foreign"}
	w.other(&foreign)
	if w.old == nil {
		w.old = map[string]route{}
	}
	w.old[foreign.Place] = foreign
	w.d.Prune()
}

func (w *walk) pauseAndResume() {
	for i, d := range []interface{ Pause() }{w.d, w.next} {
		switch n := w.rand.IntN(12); {
		case w.paused[i] && n < 6:
			w.resume(i)
		case !w.paused[i] && n == 0:
			d.Pause()
			w.paused[i] = true
		}
	}
}

func (w *walk) resume(i int) {
	[]interface{ Resume() }{w.d, w.next}[i].Resume()
	w.paused[i] = false
}

// follows reports whether a derivation runs and is not paused.
func (w *walk) follows(i int) bool { return w.stop[i] != nil && !w.paused[i] }

// breakAndHeal has functions of the program fail, or work again.
func (w *walk) breakAndHeal() {
	switch w.rand.IntN(8) {
	case 0:
		if w.follows(0) { // else rows that were not read would fail
			w.settle()
			w.broken.Store(true)
		}
	case 1:
		w.odd.Store(fmt.Sprint(w.rand.IntN(7)), true)
	case 2, 3:
		w.heal()
	}
}

// heal has all functions work, and has what failed tried again: by Retry, or for outputs, by time.
func (w *walk) heal() {
	synctest.Wait() // no error comes after Retry
	for name, row := range w.now {
		if strings.HasPrefix(row.Fail, "broken") {
			w.good[name], w.touched[name] = row, true
		}
	}
	w.release()
	had := w.broken.Swap(false)
	w.odd.Clear()
	if had || w.rand.IntN(2) == 0 {
		_, err := w.d.Retry(w.Context())
		require.NoError(w, err)
	} else {
		time.Sleep(11 * time.Second)
	}
}

// hang runs a transaction while the function hangs at a row, and looks at the derivation.
func (w *walk) hang() {
	g := &gate{string(rune('a' + w.rand.IntN(8))), make(chan struct{})}
	w.gate.Store(g)
	w.transaction()
	synctest.Wait()
	w.d.Snapshot(w.Context())
	w.d.Figures()
	w.d.Explain(w.Context(), g.name)
	_, err := w.d.Objects(w.Context(), inspect.ObjectQuery{})
	require.NoError(w, err)
	if w.rand.IntN(2) == 0 {
		_, err = w.d.Refresh(w.Context())
		require.NoError(w, err)
	}
	w.pauseAndResume()
	w.gate.Store(nil)
	close(g.opened)
}

func (w *walk) start(i int) {
	if w.stop[i] == nil {
		w.stop[i] = reconcilertest.Go(w, [2]func(ctx context.Context) error{w.d.Run, w.next.Run}[i])
	}
}

func (w *walk) halt(i int) {
	if w.stop[i] != nil {
		w.stop[i]()
		w.stop[i] = nil
	}
}

func (w *walk) startAndStop() {
	for i := range w.stop {
		switch n := w.rand.IntN(12); {
		case w.stop[i] == nil && n < 6:
			w.start(i)
		case w.stop[i] != nil && n == 0:
			w.halt(i)
		}
	}
	if w.stop[0] == nil && w.rand.IntN(8) == 0 {
		// A new derivation: what the old one has derived of rows that fail is not known to it.
		w.halt(1)
		w.d.Close()
		w.next.Close()
		w.old = contents(w.db, w.routes)
		w.make()
		w.mu.Lock()
		clear(w.must)
		clear(w.mustLast)
		w.mu.Unlock()
		for name, wish := range w.now {
			w.touched[name] = true
			if w.fails(wish) {
				delete(w.good, name)
			}
		}
	}
}

// transaction writes and deletes a few rows, some of them several times.
func (w *walk) transaction() {
	wtxn := w.db.WriteTxn(w.wishes)
	for range 1 + w.rand.IntN(6) {
		name := string(rune('a' + w.rand.IntN(8)))
		if w.rand.IntN(4) == 0 {
			w.delete(wtxn, name)
			delete(w.now, name)
			delete(w.good, name)
			w.touched[name] = true
			continue
		}
		row := &wish{Name: name, Metric: w.rand.IntN(4)}
		for range w.rand.IntN(4) {
			if place := fmt.Sprint(w.rand.IntN(7)); !strings.Contains(row.Places, place) {
				row.Places += " " + place
			}
		}
		if w.rand.IntN(4) == 0 && !w.touched[name] {
			row.Fail = []string{"error", "panic", "rank", "broken", "broken rank"}[w.rand.IntN(5)]
		}
		if !w.fails(row) {
			w.good[name], w.touched[name] = row, true
		}
		w.insert(wtxn, row)
		w.now[name] = row
	}
	// Before the commit: from now on the places that nothing wants may go.
	w.release()
	wtxn.Commit()
}

// release has the places that no row wants from now on be missing at a commit.
func (w *walk) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	routes := w.recompute()
	keep(w.must, routes)
	keep(w.mustLast, w.recomputeLast(routes))
}

func keep(must map[string]bool, rows map[string]route) {
	maps.DeleteFunc(must, func(place string, _ bool) bool {
		_, wanted := rows[place]
		return !wanted
	})
}

// recompute returns what the output has to be.
func (w *walk) recompute() (routes map[string]route) {
	routes = map[string]route{}
	for _, name := range slices.Sorted(maps.Keys(w.good)) {
		row := *w.good[name]
		for place := range strings.FieldsSeq(row.Places) {
			if had, taken := routes[place]; !taken || w.best && row.Metric < had.Metric {
				routes[place] = route{Place: place, From: name, Metric: row.Metric}
			}
		}
	}
	return routes
}

// recomputeLast returns what the last table has to be.
func (w *walk) recomputeLast(routes map[string]route) (last map[string]route) {
	last = map[string]route{}
	for _, place := range slices.Sorted(maps.Keys(routes)) {
		from := routes[place]
		made, _ := lastOf(&from)
		for _, r := range made {
			if had, taken := last[r.Place]; !taken || r.Metric < had.Metric {
				last[r.Place] = *r
			}
		}
	}
	return last
}

// mayStay returns rows of the output that are from the derivation before, if they may be there.
func (w *walk) mayStay(routes map[string]route) map[string]route {
	stay := map[string]route{}
	if !slices.ContainsFunc(slices.Collect(maps.Values(w.now)), func(row *wish) bool {
		return w.fails(row) && w.good[row.Name] == nil
	}) {
		w.old = nil
	}
	for place, row := range contents(w.db, w.routes) {
		if _, wanted := routes[place]; !wanted && w.old[place] == row {
			stay[place] = row
		}
	}
	return stay
}

// settle waits until the derivations that run are idle, and compares their outputs.
func (w *walk) settle() {
	synctest.Wait()
	published := w.published() // it commits
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(w, w.missing)
	if !w.follows(0) {
		return
	}
	clear(w.touched)
	routes := w.recompute()
	certain := w.recomputeLast(routes)
	for place := range routes {
		w.must[place] = true
	}
	maps.Copy(routes, w.mayStay(routes))
	for place, row := range contents(w.db, w.routes) {
		// If Same panics the row stays, whatever derived it.
		if _, wanted := routes[place]; wanted && w.isOdd(place) {
			routes[place] = row
		}
	}
	require.Equal(w, routes, contents(w.db, w.routes))
	w.healed(published)
	if !w.follows(1) {
		return
	}
	require.Equal(w, w.recomputeLast(routes), contents(w.db, w.last))
	for place := range certain {
		w.mustLast[place] = true
	}
	for _, table := range []statedb.TableMeta{w.routes, w.last} {
		ok, _ := table.Initialized(w.db.ReadTxn())
		require.True(w, ok)
	}
	require.Equal(w, w.wishes.Revision(w.db.ReadTxn()), published.Input)
}

// healed requires that there is no error if nothing fails.
func (w *walk) healed(published inputs.Input) {
	some := false
	w.odd.Range(func(any, any) bool { some = true; return false })
	for _, row := range w.now {
		some = some || w.fails(row)
	}
	if some || !w.best { // Each has errors of places, too
		return
	}
	require.Zero(w, w.d.Snapshot(w.Context()).Failing)
	require.Zero(w, published.Rejected)
	w.healthy()
	require.NoError(w, w.waits(w.d, reconciler.Applied))
}

func contents(db *statedb.DB, table statedb.Table[*route]) map[string]route {
	rows := map[string]route{}
	for r := range table.All(db.ReadTxn()) {
		rows[r.Place] = route{Place: r.Place, From: r.From, Metric: r.Metric}
	}
	return rows
}

// check is called after each commit.
func (w *walk) check(tables []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	txn := w.db.ReadTxn()
	for place := range w.must {
		if _, _, found := w.routes.Get(txn, byPlace.Query(place)); !found {
			w.missing = append(w.missing, place+" of routes")
		}
	}
	for place := range w.mustLast {
		if _, _, found := w.last.Get(txn, byPlace.Query(place)); !found {
			w.missing = append(w.missing, place+" of last")
		}
	}
}
