// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// rule is a row of the table at the end of a chain.
type rule struct {
	Key, Want string
	Status    reconciler.Status
}

func (r *rule) TableHeader() []string { return []string{"Key", "Want", "Status"} }
func (r *rule) TableRow() []string    { return []string{r.Key, r.Want, r.Status.String()} }

var byRule = indexBy(func(r *rule) string { return r.Key })

// rulesOf is the second function of a chain: a rule for each direction of a route.
func rulesOf(r *route) ([]*rule, error) {
	if r.Metric < 0 {
		return nil, errors.New("negative metric")
	}
	rules := []*rule{{Key: r.Place + "/in", Want: r.From, Status: reconciler.StatusPending()}}
	if r.Metric%2 > 0 {
		rules = append(rules, &rule{Key: r.Place + "/out", Want: r.From, Status: reconciler.StatusPending()})
	}
	return rules, nil
}

// wall is the target of the rules. It outlives the process.
type wall struct {
	mu   sync.Mutex
	has  map[string]string
	fail map[string]bool
	// process is the number of the present process, and by that of the one that has written a key.
	process int
	by      map[string]int
	rand    *rand.Rand
}

func (w *wall) operation(key string, done func()) error {
	w.mu.Lock()
	wait := time.Duration(w.rand.IntN(3)) * time.Millisecond
	w.mu.Unlock()
	time.Sleep(wait)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail[key] {
		return fmt.Errorf("%s is refused", key)
	}
	done()
	return nil
}

func (w *wall) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *rule) error {
	return w.operation(r.Key, func() { w.has[r.Key], w.by[r.Key] = r.Want, w.process })
}

func (w *wall) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *rule) error {
	return w.operation(r.Key, func() { delete(w.has, r.Key) })
}

func (w *wall) List(_ context.Context, _ statedb.ReadTxn, yield func(*rule) bool) error {
	for key, want := range w.contents() {
		if !yield(&rule{Key: key, Want: want}) {
			break
		}
	}
	return nil
}

func (w *wall) contents() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.has)
}

// isOld reports whether an earlier process has written a key.
func (w *wall) isOld(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.by[key] < w.process
}

// forceWalk changes the two inputs of a chain of two derivations and a loop, and asks about random rows whether they are
// in force. The content of each rule has the versions of the rows that it is derived from. So whether an answer came too
// early is seen by a comparison of the target with what the inputs have wanted since the version was written.
type forceWalk struct {
	*testing.T
	rand         *rand.Rand
	best, beside bool
	wall         *wall

	// These are of the present process. stops ends its parts.
	*joined
	rules  statedb.RWTable[*rule]
	first  *derived
	second *derive.Derived[*route, *rule]
	stops  map[string]func()
	listed func(statedb.WriteTxn)

	// wishes and pods are what is wanted, by name, and last is the last version that was given.
	wanted struct {
		wishes map[string]*wish
		pods   map[string]*pod
	}
	last int

	// states are what the target has to have after each transaction, since has the first one with the present version of a
	// row. yes and no count the answers.
	mu      sync.Mutex
	states  []map[string]string
	since   map[string]int
	yes, no int
	waits   sync.WaitGroup
}

func TestNothingIsInForceEarly(t *testing.T) {
	seed := *walkSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	yes, no := 0, 0
	for i := range long.Times(12) {
		best, beside := i%2 > 0, i/2%2 > 0
		t.Run(fmt.Sprintf("best=%t/beside=%t/seed=%d", best, beside, seed+uint64(i)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed+uint64(i), 0))
				w := &forceWalk{
					T: t, rand: random, best: best, beside: beside, since: map[string]int{},
					wall: &wall{has: map[string]string{}, by: map[string]int{}, fail: map[string]bool{}, rand: rand.New(rand.NewPCG(seed+uint64(i), 1))},
				}
				w.wanted.wishes, w.wanted.pods = map[string]*wish{}, map[string]*pod{}
				w.run()
				yes, no = yes+w.yes, no+w.no
			})
		})
	}
	t.Logf("%d times yes, %d times no", yes, no)
	require.True(t, yes > 100 && no > 100, "%d times yes, %d times no", yes, no)
}

func (w *forceWalk) run() {
	w.boot()
	for range 60 {
		w.step()
		for range w.rand.IntN(4) {
			w.probe()
		}
		if w.rand.IntN(4) == 0 {
			w.await()
		}
	}
	// In the end all is in force.
	w.wall.mu.Lock()
	clear(w.wall.fail)
	w.wall.mu.Unlock()
	w.start()
	w.first.Resume()
	w.second.Resume()
	time.Sleep(30 * time.Second)
	w.waits.Wait()
	for _, s := range w.subjects() {
		f, err := w.registry.InForce(w.Context(), s.table, s.name)
		require.NoError(w, err)
		if f.Found && w.best && s.table == "wishes" && w.loses(s.name) {
			require.False(w, f.Yes, "%s loses", s)
			continue
		}
		if w.best && s.table == "pods" && !f.Yes {
			continue // a wish that depends on it loses
		}
		require.True(w, f.Yes, "%s: %+v", s, f.HeldUpBy)
		w.check(s, w.since[s.String()])
	}
	w.kill()
}

// subject is a row that is asked about.
type subject struct{ table, name string }

func (s subject) String() string { return s.table + "/" + s.name }

func (w *forceWalk) subjects() (all []subject) {
	for i := range 5 {
		all = append(all, subject{"wishes", fmt.Sprint("w", i)}, subject{"pods", fmt.Sprint("p", i)})
	}
	return all
}

// boot begins a process: the tables are filled piece by piece.
func (w *forceWalk) boot() {
	w.joined = newJoined(w.T)
	w.wall.mu.Lock()
	w.wall.process++
	w.wall.mu.Unlock()
	w.rules = newTable(w.env, "rules", byRule)
	wtxn := w.db.WriteTxn(w.wishes, w.pods, w.nodes)
	one, two := w.wishes.RegisterInitializer(wtxn, "list"), w.pods.RegisterInitializer(wtxn, "list")
	w.listed = func(wtxn statedb.WriteTxn) { one(wtxn); two(wtxn) }
	wtxn.Commit()
	w.mu.Lock()
	w.states = []map[string]string{{}}
	clear(w.since)
	w.mu.Unlock()
	w.stops = map[string]func(){}
	w.makeFirst()
	cfg := derive.Config[*rule]{DB: w.db, Registry: w.registry}
	cfg.Same = func(current, derived *rule) bool { return current.Want == derived.Want }
	cfg.Merge = func(_, derived *rule) *rule { return derived }
	var err error
	w.second, err = derive.Each(cfg, w.routes.ToTable(), w.rules, rulesOf)
	require.NoError(w, err)
	w.Cleanup(w.second.Close)
	w.start()
	wishes, pods := w.wanted.wishes, w.wanted.pods
	w.wanted.wishes, w.wanted.pods = map[string]*wish{}, map[string]*pod{}
	for len(wishes)+len(pods) > 0 {
		w.write(func(wtxn statedb.WriteTxn) {
			for name, row := range pods {
				if delete(pods, name); w.rand.IntN(3) > 0 {
					w.set(wtxn, subject{"pods", name}, nil, row)
					break
				}
				w.set(wtxn, subject{"pods", name}, nil, row)
			}
			for name, row := range wishes {
				delete(wishes, name)
				w.set(wtxn, subject{"wishes", name}, row, nil)
				break
			}
		})
		w.probe()
	}
	w.write(w.listed)
}

func (w *forceWalk) makeFirst() {
	if w.first != nil {
		w.first.Close()
	}
	w.lookups()
	if w.best {
		metric := func(_ *derive.Reader, row *wish) int { return row.Metric }
		w.first = w.made(derive.BestOf(w.cfg, w.wishes.ToTable(), w.routes, w.selects1, metric, w.label))
		return
	}
	w.first = w.made(derive.EachOf(w.cfg, w.wishes.ToTable(), w.routes, w.selects1, w.label))
}

// start starts what does not run.
func (w *forceWalk) start() {
	run := func(name string, run func(context.Context) error) {
		if w.stops[name] == nil {
			w.stops[name] = reconcilertest.Go(w, run)
		}
	}
	run("first", w.first.Run)
	run("second", w.second.Run)
	if w.stops["loop"] == nil {
		run("loop", w.newLoop().Run)
	}
}

func (w *forceWalk) newLoop() *reconciler.Loop[*rule] {
	cfg := reconciler.Config[*rule]{
		DB: w.db, Table: w.rules, Operations: w.wall, Lister: w.wall,
		Equal: func(wanted, found *rule) bool { return wanted.Want == found.Want },
		Options: []reconciler.Option{
			reconciler.WithRegistry(w.registry), reconciler.WithRetry(5*time.Millisecond, 50*time.Millisecond),
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 1 + w.rand.IntN(3) }),
		},
	}
	if !w.beside {
		cfg.Clone = func(r *rule) *rule { c := *r; return &c }
		cfg.GetStatus = func(r *rule) reconciler.Status { return r.Status }
		cfg.SetStatus = func(r *rule, s reconciler.Status) *rule { r.Status = s; return r }
	}
	loop, err := reconciler.New(cfg)
	require.NoError(w, err)
	return loop
}

func (w *forceWalk) stop(name string) {
	if stop := w.stops[name]; stop != nil {
		stop()
		delete(w.stops, name)
	}
}

func (w *forceWalk) kill() {
	for _, name := range []string{"loop", "second", "first"} {
		w.stop(name)
	}
	w.waits.Wait()
	w.first.Close()
	w.second.Close()
	w.first = nil
}

// selects1 derives a route for each pod with the label of a wish.
func (w *forceWalk) selects1(r *derive.Reader, row *wish) (out []*route, err error) {
	for p := range w.label.List(r, row.Places) {
		out = append(out, w.route(row, p))
	}
	return out, nil
}

func (w *forceWalk) route(row *wish, p *pod) *route {
	place := row.Name + ":" + p.Name
	if w.best {
		place = p.Name
	}
	return &route{Place: place, From: row.Name + row.Fail + " " + p.Name + p.Addr, Metric: row.Metric}
}

// wants returns what the target has to have.
func (w *forceWalk) wants() map[string]string {
	best := map[string]*route{}
	names := slices.Sorted(maps.Keys(w.wanted.wishes))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(w.wanted.wishes[a].Metric, w.wanted.wishes[b].Metric)
	})
	for _, name := range names {
		for _, p := range w.wanted.pods {
			row := w.wanted.wishes[name]
			if r := w.route(row, p); slices.Contains(strings.Fields(p.Labels), row.Places) && best[r.Place] == nil {
				best[r.Place] = r
			}
		}
	}
	want := map[string]string{}
	for _, r := range best {
		rules, _ := rulesOf(r)
		for _, x := range rules {
			want[x.Key] = x.Want
		}
	}
	return want
}

// loses reports whether a wish selects a pod that another wish wins.
func (w *forceWalk) loses(name string) bool {
	row, want := w.wanted.wishes[name], w.wants()
	for _, p := range w.wanted.pods {
		if slices.Contains(strings.Fields(p.Labels), row.Places) && !strings.Contains(want[w.route(row, p).Place+"/in"], name+"@") {
			return true
		}
	}
	return false
}

func (w *forceWalk) step() {
	switch w.rand.IntN(20) {
	case 0:
		w.stop([]string{"first", "second", "loop"}[w.rand.IntN(3)])
	case 1, 2, 3:
		w.start()
	case 4:
		w.first.Pause()
	case 5:
		w.second.Pause()
	case 6, 7, 8:
		w.first.Resume()
		w.second.Resume()
	case 9:
		w.stop("first")
		w.makeFirst()
		w.start()
	case 10:
		w.kill()
		w.boot()
	case 11, 12:
		w.wall.mu.Lock()
		w.wall.fail[fmt.Sprintf("w%d:p%d/in", w.rand.IntN(5), w.rand.IntN(5))] = true
		w.wall.fail[fmt.Sprintf("p%d/in", w.rand.IntN(5))] = true
		w.wall.mu.Unlock()
	case 13, 14:
		w.wall.mu.Lock()
		clear(w.wall.fail)
		w.wall.mu.Unlock()
	case 15:
		time.Sleep(11 * time.Second) // the derivations look for what is over
	default:
		w.write(func(wtxn statedb.WriteTxn) {
			for range 1 + w.rand.IntN(4) {
				w.change(wtxn)
			}
		})
		if w.rand.IntN(2) == 0 {
			synctest.Wait()
		}
		time.Sleep(time.Duration(w.rand.IntN(8)) * time.Millisecond)
	}
}

func (w *forceWalk) write(write func(wtxn statedb.WriteTxn)) {
	wtxn := w.db.WriteTxn(w.wishes, w.pods)
	w.mu.Lock()
	write(wtxn)
	w.states = append(w.states, w.wants())
	w.mu.Unlock()
	wtxn.Commit()
}

// change changes a random row, or deletes it.
func (w *forceWalk) change(wtxn statedb.WriteTxn) {
	w.last++
	version := fmt.Sprint("@", w.last, ".")
	all := w.subjects()
	s := all[w.rand.IntN(len(all))]
	switch {
	case w.rand.IntN(4) == 0:
		w.set(wtxn, s, nil, nil)
	case s.table == "wishes":
		w.set(wtxn, s, &wish{Name: s.name, Places: fmt.Sprint("l", w.rand.IntN(3)), Metric: w.rand.IntN(3), Fail: version}, nil)
	default:
		p := &pod{Name: s.name, Addr: version}
		for i := range 3 {
			if w.rand.IntN(2) == 0 {
				p.Labels += fmt.Sprint(" l", i)
			}
		}
		w.set(wtxn, s, nil, p)
	}
}

// set writes a row, or deletes it if both are nil. mu is held.
func (w *forceWalk) set(wtxn statedb.WriteTxn, s subject, row *wish, p *pod) {
	w.since[s.String()] = len(w.states)
	var err error
	switch {
	case row != nil:
		w.wanted.wishes[s.name] = row
		_, _, err = w.wishes.Insert(wtxn, row)
	case p != nil:
		w.wanted.pods[s.name] = p
		_, _, err = w.pods.Insert(wtxn, p)
	case s.table == "wishes":
		delete(w.wanted.wishes, s.name)
		_, _, err = w.wishes.Delete(wtxn, &wish{Name: s.name})
	default:
		delete(w.wanted.pods, s.name)
		_, _, err = w.pods.Delete(wtxn, &pod{Name: s.name})
	}
	require.NoError(w, err)
}

// probe asks about a random row.
func (w *forceWalk) probe() {
	all := w.subjects()
	s := all[w.rand.IntN(len(all))]
	f, err := w.registry.InForce(w.Context(), s.table, s.name)
	switch {
	case err != nil:
		require.ErrorIs(w, err, inspect.ErrNoReconciler)
	case f.Yes:
		w.yes++
		w.check(s, w.since[s.String()])
	default:
		require.NotEmpty(w, f.HeldUpBy)
		w.no++
	}
}

// await begins a wait for a random row.
func (w *forceWalk) await() {
	all := w.subjects()
	s := all[w.rand.IntN(len(all))]
	since, registry := w.since[s.String()], w.registry
	ctx, cancel := context.WithTimeout(w.Context(), time.Duration(w.rand.IntN(20000))*time.Millisecond)
	w.waits.Go(func() {
		defer cancel()
		if f, err := registry.WaitInForce(ctx, s.table, s.name); err == nil {
			require.True(w, f.Yes)
			w.check(s, since)
		}
	})
}

// check requires that the target has of a row what one of the states since a number wants.
func (w *forceWalk) check(s subject, since int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	has, states := w.wall.contents(), w.states[since:]
	keys := maps.Clone(has)
	for _, want := range states {
		maps.Copy(keys, want)
	}
	for key := range keys {
		mentions := func(content string) bool { return strings.Contains(content, s.name+"@") }
		all, is := true, false
		for _, want := range states {
			all, is = all && mentions(want[key]), is || want[key] == has[key]
		}
		// What another process has left under a key that another row has wanted since is that row's.
		if w.wall.isOld(key) && slices.ContainsFunc(w.states, func(want map[string]string) bool {
			return want[key] != "" && !mentions(want[key])
		}) {
			continue
		}
		if (all || mentions(has[key])) && !is {
			w.Errorf("%s was said to be in force early: the target has %q under %s, wanted is %q", s, has[key], key, states[len(states)-1][key])
		}
	}
}
