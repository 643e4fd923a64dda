// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"errors"
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

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// joinWalk writes random transactions into the three inputs of a derivation, which stops and starts, is paused, and is
// replaced by another one meanwhile, and whose function fails for some rows for a while. After each commit what has
// changed in the output must follow from one state of the inputs, which is no older than that of the commit before.
type joinWalk struct {
	*joined
	rand   *rand.Rand
	best   bool
	d      *derived
	stop   func()
	paused bool
	// broken: the function fails for wishes whose Fail is "broken".
	broken atomic.Bool
	// pending ends the initialisers of the inputs.
	pending []func(statedb.WriteTxn)

	// in are the rows of the inputs.
	in struct {
		wishes map[string]*wish
		pods   map[string]*pod
		nodes  map[string]*node
	}

	// leftovers: a derivation before this one has written rows, and this one may not delete them yet.
	leftovers bool

	// states are those of the inputs from the one that the output followed last.
	mu     sync.Mutex
	states []joinState
	// recent are all states since the derivation was idle.
	recent []joinState
	output map[string]string
	wrong  []string
}

// joinState is what the output has to be at a state of the inputs. The function fails for some wishes.
type joinState struct {
	want  map[string]string
	fails map[string]bool
}

func TestJoinEqualsARecomputation(t *testing.T) {
	seed := *walkSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	n := 25
	if times := long.Times(1); times > 1 {
		n = 1000 * times // 10,000 histories in make test-long
	}
	for i := range n {
		for _, best := range []bool{true, false} {
			t.Run(fmt.Sprintf("best=%t/seed=%d", best, seed+uint64(i)), func(t *testing.T) {
				withJoins(t, func(e *joined) { newJoinWalk(e, seed+uint64(i), best).run() })
			})
		}
	}
}

func newJoinWalk(e *joined, seed uint64, best bool) *joinWalk {
	w := &joinWalk{
		joined: e, rand: rand.New(rand.NewPCG(seed, 0)), best: best, output: map[string]string{},
	}
	w.in.wishes, w.in.pods, w.in.nodes = map[string]*wish{}, map[string]*pod{}, map[string]*node{}
	wtxn := e.db.WriteTxn(e.wishes, e.pods, e.nodes)
	w.pending = []func(statedb.WriteTxn){
		e.wishes.RegisterInitializer(wtxn, "late"), e.pods.RegisterInitializer(wtxn, "late"),
		e.nodes.RegisterInitializer(wtxn, "late"),
	}
	wtxn.Commit()
	w.states = []joinState{w.state()}
	check := w.check
	e.commits.after.Store(&check)
	w.remake()
	return w
}

// remake replaces the derivation by a new one.
func (w *joinWalk) remake() {
	if w.d != nil {
		w.d.Close()
	}
	w.mu.Lock()
	w.leftovers = !w.initialized()
	w.mu.Unlock()
	w.lookups()
	if w.best {
		w.d = w.made(derive.BestOf(w.cfg, w.wishes, w.routes, w.derives, w.rankOf, w.label, w.zone))
	} else {
		w.d = w.made(derive.EachOf(w.cfg, w.wishes, w.routes, w.derives, w.zone, w.label))
	}
	w.d.SetMaxRows(1 + w.rand.IntN(4))
	w.paused = false
}

// derives selects the pods that have all labels of a wish; without labels, all pods. Of each pod it looks up the node.
func (w *joinWalk) derives(r *derive.Reader, row *wish) (out []*route, err error) {
	labels := strings.Fields(row.Places)
	pods := w.label.All(r)
	if len(labels) > 0 {
		pods = w.label.List(r, labels[0])
	}
	for p := range pods {
		if row.Fail == "broken" && w.broken.Load() {
			return nil, errors.New("broken")
		}
		if hasAll(p, labels) {
			n, _, _ := w.zone.Get(r, p.Addr)
			out = append(out, w.route(row, p, n))
		}
	}
	return out, nil
}

func (w *joinWalk) rankOf(r *derive.Reader, row *wish) int {
	n, _, found := w.zone.Get(r, row.Name)
	return rank(row, n, found)
}

func rank(row *wish, n *node, found bool) int {
	if found {
		return row.Metric - len(n.Zone)
	}
	return row.Metric
}

func (w *joinWalk) route(row *wish, p *pod, n *node) *route {
	zone := ""
	if n != nil {
		zone = n.Zone
	}
	place := row.Name + ":" + p.Name
	if w.best {
		place = p.Name
	}
	return &route{Place: place, From: row.Name + " " + zone, Metric: row.Metric}
}

// state recomputes the output from the inputs as they are now.
func (w *joinWalk) state() joinState {
	s := joinState{want: map[string]string{}, fails: map[string]bool{}}
	ranks := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(w.in.wishes)) {
		row := w.in.wishes[name]
		n, found := w.in.nodes[name]
		mine := rank(row, n, found)
		labels := strings.Fields(row.Places)
		for _, p := range w.in.pods {
			if (len(labels) > 0 && !hasAll(p, labels[:1])) || s.fails[name] {
				continue
			}
			if row.Fail == "broken" && w.broken.Load() {
				s.fails[name] = true
				continue
			}
			if r := w.route(row, p, w.in.nodes[p.Addr]); hasAll(p, labels) {
				if had, taken := ranks[r.Place]; !taken || w.best && mine < had {
					s.want[r.Place], ranks[r.Place] = r.From, mine
				}
			}
		}
	}
	return s
}

// allows reports whether a place of the output may have changed to a row, or to none, at a state. Of a wish that fails
// leftovers may go, which its last good version does not want. That version may also be written now, if it was derived at
// a state before, in a round that was ended before it wrote.
func (s joinState) allows(place, row string, leftovers bool, recent []joinState) bool {
	wish, _, _ := strings.Cut(place, ":")
	if !s.fails[wish] {
		return s.want[place] == row
	}
	return leftovers && row == "" || slices.ContainsFunc(recent, func(s joinState) bool {
		return !s.fails[wish] && s.want[place] == row
	})
}

// next has the state that the inputs are about to have follow.
func (w *joinWalk) next() {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.state()
	w.states, w.recent = append(w.states, s), append(w.recent, s)
}

// check is called after each commit.
func (w *joinWalk) check([]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	output := w.contents()
	changed := map[string]bool{}
	for place, row := range output {
		changed[place] = w.output[place] != row
	}
	for place := range w.output {
		changed[place] = changed[place] || output[place] == ""
	}
	for i, s := range w.states {
		ok := true
		for place, is := range changed {
			ok = ok && (!is || s.allows(place, output[place], w.leftovers, w.recent))
		}
		if ok {
			w.states, w.output = w.states[i:], output
			return
		}
	}
	w.wrong = append(w.wrong, fmt.Sprintf("%v after %v follows from no state since the one before", output, w.output))
	w.output = output
}

func (w *joinWalk) contents() map[string]string {
	rows := map[string]string{}
	for r := range w.routes.All(w.db.ReadTxn()) {
		rows[r.Place] = r.From
	}
	return rows
}

func (w *joinWalk) run() {
	for range 50 {
		w.act()
		w.transaction()
		if w.rand.IntN(3) > 0 {
			w.settle()
		}
	}
	w.heal()
	for len(w.pending) > 0 {
		w.initialize()
	}
	w.start()
	w.d.Resume()
	w.paused = false
	w.settle()
	w.commit(func(wtxn statedb.WriteTxn) {
		w.states = nil // anything may be in between from now on
		w.commits.after.Store(nil)
		require.NoError(w, w.wishes.DeleteAll(wtxn))
	})
	require.Empty(w, w.contents())
	f := w.d.Figures()
	rows, places := w.d.Tracked()
	require.Zero(w, rows+places+f.Edges+f.EdgesToAll, "nothing is remembered of rows that are gone")
	w.stop()
}

// act does what is not a transaction of the inputs.
func (w *joinWalk) act() {
	switch w.rand.IntN(12) {
	case 0:
		if w.stop != nil {
			w.stop()
			w.stop = nil
		}
	case 1, 2, 3:
		w.start()
	case 4:
		w.d.Pause()
		w.paused = true
	case 5, 6:
		w.d.Resume()
		w.paused = false
	case 7:
		if !w.best && w.stop != nil && !w.paused && w.ready() {
			w.settle() // no row is read that has failed never
			w.broken.Store(true)
			w.next()
		}
	case 8:
		w.heal()
	case 9:
		if len(w.pending) > 0 {
			w.initialize()
		}
	case 10:
		if w.stop == nil {
			w.heal()
			w.remake()
		}
	case 11:
		if w.stop != nil {
			// A round is ended wherever it is.
			w.transaction()
			w.stop()
			w.stop = nil
			w.start()
		}
	}
}

func (w *joinWalk) start() {
	if w.stop == nil {
		w.stop = reconcilertest.Go(w, w.d.Run)
	}
}

func (w *joinWalk) heal() {
	synctest.Wait()
	if w.broken.Swap(false) {
		w.next()
		_, err := w.d.Retry(w.Context())
		require.NoError(w, err)
	}
}

func (w *joinWalk) initialize() {
	wtxn := w.db.WriteTxn(w.wishes, w.pods, w.nodes)
	i := w.rand.IntN(len(w.pending))
	w.pending[i](wtxn)
	w.pending = slices.Delete(w.pending, i, i+1)
	wtxn.Commit()
}

// transaction writes and deletes a few rows of some of the inputs, some of them several times.
func (w *joinWalk) transaction() {
	wtxn := w.db.WriteTxn(w.wishes, w.pods, w.nodes)
	name := func(from string, n int) string { return from + fmt.Sprint(w.rand.IntN(n)) }
	for range 1 + w.rand.IntN(5) {
		switch w.rand.IntN(8) {
		case 0:
			row := &wish{Name: name("n", 5), Metric: w.rand.IntN(4)}
			for range w.rand.IntN(3) {
				row.Places += " " + name("l", 4)
			}
			if w.rand.IntN(3) == 0 {
				row.Fail = "broken"
			}
			change(w.joined, w.rand, wtxn, w.wishes, w.in.wishes, row.Name, row)
		case 1, 2, 3:
			row := &node{name("n", 5), strings.Repeat("z", 1+w.rand.IntN(4))}
			change(w.joined, w.rand, wtxn, w.nodes, w.in.nodes, row.Name, row)
		default:
			row := &pod{Name: name("p", 6), Addr: name("n", 5)}
			for i := range 4 {
				if w.rand.IntN(2) == 0 {
					row.Labels += fmt.Sprint(" l", i)
				}
			}
			change(w.joined, w.rand, wtxn, w.pods, w.in.pods, row.Name, row)
		}
	}
	w.next() // before the commit is visible
	wtxn.Commit()
}

// change writes or deletes a row with a key, and reports whether it has written it.
func change[Row any](
	e *joined, random *rand.Rand, wtxn statedb.WriteTxn, table statedb.RWTable[Row], rows map[string]Row, key string, row Row,
) (wrote bool) {
	if random.IntN(4) > 0 {
		rows[key] = row
		put(e, wtxn, table, row)
		return true
	}
	delete(rows, key)
	_, _, err := table.Delete(wtxn, row)
	require.NoError(e, err)
	return false
}

// ready reports whether the tables are initialised in which the function looks rows up.
func (w *joinWalk) ready() bool {
	pods, _ := w.pods.Initialized(w.db.ReadTxn())
	nodes, _ := w.nodes.Initialized(w.db.ReadTxn())
	return pods && nodes
}

// settle waits until the derivation is idle, and compares the output.
func (w *joinWalk) settle() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(w, w.wrong)
	if w.stop == nil || w.paused || !w.ready() {
		return
	}
	now := w.state()
	w.recent = []joinState{now}
	output := w.contents()
	for place, row := range now.want {
		require.Equal(w, row, output[place], place)
	}
	for place := range output {
		wish, _, _ := strings.Cut(place, ":")
		if _, wanted := now.want[place]; !wanted && !now.fails[wish] {
			// A row that has never been derived may be the one that leftovers follow from.
			require.True(w, len(w.pending) > 0 || w.leftovers && len(now.fails) > 0, "%s follows from nothing", place)
		}
	}
	require.Equal(w, len(w.pending) == 0, w.initialized())
	w.leftovers = w.leftovers && !(w.initialized() && len(now.fails) == 0)
	if len(now.fails) == 0 && w.best { // Each has errors of places, too
		w.healthy()
		require.Zero(w, w.d.Snapshot(w.Context()).Unseen)
	}
	if len(now.fails) == 0 {
		ended := time.Now()
		require.NoError(w, w.waits(w.d, reconciler.Applied))
		require.Equal(w, ended, time.Now())
	}
}
