// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

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

// sick are the functions of derivations that fail for a while. The keys are a derivation, a function of it and a row, such
// as "first/early/w0"; the function is one of those of illnesses.
type sick struct {
	mu   sync.Mutex
	with map[string]bool
}

// illnesses are the functions that fail, of each derivation: before it has looked anything up, after that with an error or a
// panic, the rank, and the functions that are called for an output row.
var illnesses = []string{"early", "error", "panic", "rank", "same", "merge", "key"}

func (s *sick) is(of, what, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.with[of+"/"+what+"/"+key]
}

// fails fails as one of the illnesses wants it.
func (s *sick) fails(of, key string, what ...string) error {
	for _, what := range what {
		switch {
		case !s.is(of, what, key):
		case what == "early" || what == "error":
			return errors.New(what)
		default:
			panic(what)
		}
	}
	return nil
}

// rulesOf is the function of the second derivation of a chain: a rule for each direction of a route.
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
	mu  sync.Mutex
	has map[string]string
	// fail and hang are the keys whose operations fail, or hang. slow is the time of an operation. odd: some return something
	// else than what they have done.
	fail, hang map[string]bool
	slow       time.Duration
	odd        bool
	// process is the number of the present process, and by that of the one that has written a key.
	process int
	by      map[string]int
	rand    *rand.Rand
}

func (w *wall) operation(ctx context.Context, key string, deletes bool, done func()) error {
	w.mu.Lock()
	wait := time.Duration(w.rand.IntN(3))*time.Millisecond + w.slow
	w.mu.Unlock()
	time.Sleep(wait)
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.hang[key] && ctx.Err() == nil {
		w.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		w.mu.Lock()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.fail[key] {
		return fmt.Errorf("%s is refused", key)
	}
	if w.odd {
		switch w.rand.IntN(8) {
		case 0:
			done()
			return errors.New("the answer is lost")
		case 1:
			if !deletes {
				done()
			}
			return reconciler.Requeue(5 * time.Millisecond)
		case 2:
			free := make(chan struct{})
			time.AfterFunc(5*time.Millisecond, func() { close(free) })
			return reconciler.Blocked("not free", free)
		case 3:
			// It is past its time, and is carried out.
			w.mu.Unlock()
			time.Sleep(60 * time.Millisecond)
			w.mu.Lock()
			done()
			return ctx.Err()
		}
	}
	done()
	return nil
}

// heal ends all failures.
func (w *wall) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.fail)
	clear(w.hang)
	w.slow, w.odd = 0, false
}

func (w *wall) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *rule) error {
	return w.operation(ctx, r.Key, false, func() { w.has[r.Key], w.by[r.Key] = r.Want, w.process })
}

func (w *wall) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *rule) error {
	return w.operation(ctx, r.Key, true, func() { delete(w.has, r.Key) })
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
	rand *rand.Rand
	shape
	wall *wall

	// These are of the present process. stops ends its parts.
	*joined
	named  *derive.Joined[*pod, string]
	rules  statedb.RWTable[*rule]
	first  *derived
	second *derive.Derived[*route, *rule]
	loop   *reconciler.Loop[*rule]
	stops  map[string]func()
	listed func(statedb.WriteTxn)
	// broken: both indexes by which the first derivation looks pods up panic.
	broken atomic.Bool
	sick   sick

	// wishes and pods are what is wanted, by name, and last is the last version that was given.
	wanted struct {
		wishes map[string]*wish
		pods   map[string]*pod
	}
	last int

	// states are what the target has to have after each transaction, since has the first one with the present version of a
	// row. unwell are the last states before a wish was derived without a failure, by its name; never while it may fail. early
	// are those of wishes that may have looked nothing up. yes and no count the answers, waited the waits that ended well.
	// gaveUp has the errors of the others.
	mu              sync.Mutex
	states          []map[string]string
	since           map[string]asked
	unwell, early   map[string]int
	yes, no, waited int
	gaveUp          []error
	waits           sync.WaitGroup
}

// asked is what an answer about a row is for: the first state with its version, and the number of that. Contents have the
// numbers of the versions that they are derived from.
type asked struct{ state, version int }

// never is after all states.
const never = math.MaxInt

// shape is what a walk is made of: places are won by the best, the statuses are beside the table, the second derivation looks
// wishes up, too, so that two ways lead from a wish to a rule, and there are so many pods that the loop is behind.
type shape struct{ best, beside, diamond, many bool }

func TestNothingIsInForceEarly(t *testing.T) {
	seed := *walkSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	yes, no, waited := 0, 0, 0
	for i := range long.Times(16) {
		s := shape{best: i%2 > 0, beside: i/2%2 > 0, diamond: i/4%2 > 0, many: i/8%2 > 0}
		t.Run(fmt.Sprintf("%+v/seed=%d", s, seed+uint64(i)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &forceWalk{
					T: t, rand: rand.New(rand.NewPCG(seed+uint64(i), 0)), shape: s, since: map[string]asked{},
					sick: sick{with: map[string]bool{}}, unwell: map[string]int{}, early: map[string]int{},
					wall: &wall{
						has: map[string]string{}, by: map[string]int{}, fail: map[string]bool{}, hang: map[string]bool{},
						rand: rand.New(rand.NewPCG(seed+uint64(i), 1)),
					},
				}
				w.wanted.wishes, w.wanted.pods = map[string]*wish{}, map[string]*pod{}
				w.run()
				yes, no, waited = yes+w.yes, no+w.no, waited+w.waited
			})
		})
	}
	t.Logf("%d times yes, %d times no, %d waits ended well", yes, no, waited)
	require.True(t, yes > 100 && no > 100 && waited > 10, "%d times yes, %d times no, %d waits ended well", yes, no, waited)
}

func (w *forceWalk) run() {
	w.boot()
	for range 60 {
		w.step()
		for range w.rand.IntN(4) {
			w.probe(w.subject())
		}
		switch w.rand.IntN(8) {
		case 0, 1:
			w.await(w.subject(), time.Duration(w.rand.IntN(20000))*time.Millisecond)
		case 2, 3:
			// An answer may take long, while rows change.
			s := w.subject()
			w.waits.Go(func() { w.probe(s) })
		}
	}
	// In the end all is in force, and the waits are over.
	w.waits.Wait()
	w.start()
	synctest.Wait()
	w.gaveUp = nil
	before, all := w.waited, w.subjects()
	for _, s := range all {
		w.await(s, 90*time.Second)
	}
	w.broken.Store(false)
	w.calm()
	for range 6 {
		time.Sleep(10 * time.Second)
		w.loop.ApproveResync()
	}
	w.waits.Wait()
	losers := 0
	for _, s := range all {
		f, err := w.registry.InForce(w.Context(), s.table, s.name)
		require.NoError(w, err)
		switch {
		case w.best && s.table == "wishes" && f.Found && w.loses(s.name):
			require.False(w, f.Yes, "%s loses", s)
			losers++
		case w.best && s.table == "pods" && !f.Yes:
			losers++ // a wish that depends on it loses
		default:
			require.True(w, f.Yes, "%s: %+v", s, f.HeldUpBy)
			w.check(s, w.asked(s))
		}
	}
	require.GreaterOrEqual(w, w.waited-before, len(all)-losers, "%v", w.gaveUp)
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

// subject returns a random one.
func (w *forceWalk) subject() subject {
	all := w.subjects()
	return all[w.rand.IntN(len(all))]
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
	isOver := func(_ string, until int) bool { return until < never }
	maps.DeleteFunc(w.unwell, isOver)
	maps.DeleteFunc(w.early, isOver)
	w.mu.Unlock()
	w.stops = map[string]func(){}
	w.makeFirst()
	w.makeSecond()
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
		w.probe(w.subject())
	}
	w.write(w.listed)
}

// breaks returns an index of pods that panics while indexes are broken.
func (w *forceWalk) breaks(of statedb.Index[*pod, string]) statedb.Index[*pod, string] {
	keys := of.FromObject
	of.FromObject = func(p *pod) index.KeySet {
		if w.broken.Load() {
			panic("broken")
		}
		return keys(p)
	}
	return of
}

func (w *forceWalk) makeFirst() {
	if w.first != nil {
		w.first.Close()
	}
	w.label = derive.Lookup(w.pods.ToTable(), w.breaks(byLabel(&w.odd)))
	w.named = derive.Lookup(w.pods.ToTable(), w.breaks(byPodName))
	cfg := w.cfg
	cfg.Same = func(current, derived *route) bool {
		_ = w.sick.fails("first", derived.Place, "same")
		return *current == *derived
	}
	cfg.Merge = func(_, derived *route) *route {
		if _ = w.sick.fails("first", derived.Place, "merge"); w.sick.is("first", "key", derived.Place) {
			return &route{Place: "elsewhere"}
		}
		return derived
	}
	if w.best {
		metric := func(_ *derive.Reader, row *wish) int {
			_ = w.sick.fails("first", row.Name, "rank")
			return row.Metric
		}
		w.first = w.made(derive.BestOf(cfg, w.wishes.ToTable(), w.routes, w.selects1, metric, w.label, w.named))
		return
	}
	w.first = w.made(derive.EachOf(cfg, w.wishes.ToTable(), w.routes, w.selects1, w.label, w.named))
}

func (w *forceWalk) makeSecond() {
	cfg := derive.Config[*rule]{DB: w.db, Registry: w.registry}
	cfg.Same = func(current, derived *rule) bool {
		_ = w.sick.fails("second", derived.Key, "same")
		return current.Want == derived.Want
	}
	cfg.Merge = func(_, derived *rule) *rule {
		if _ = w.sick.fails("second", derived.Key, "merge"); w.sick.is("second", "key", derived.Key) {
			return nil
		}
		return derived
	}
	derived := func(row *route) ([]*rule, error) {
		if err := w.sick.fails("second", row.Place, "error", "panic"); err != nil {
			return nil, err
		}
		return rulesOf(row)
	}
	var err error
	if w.diamond {
		wishes := derive.Lookup(w.wishes.ToTable(), byName)
		w.second, err = derive.EachOf(cfg, w.routes.ToTable(), w.rules, func(r *derive.Reader, row *route) ([]*rule, error) {
			if err := w.sick.fails("second", row.Place, "early"); err != nil {
				return nil, err
			}
			direct, name := "", row.From[:strings.IndexByte(row.From, '@')]
			if now, _, found := wishes.Get(r, name); found {
				direct = now.Name + now.Fail
			}
			rules, err := derived(row)
			for _, one := range rules {
				one.Want += "|" + direct
			}
			return rules, err
		}, wishes)
	} else {
		w.second, err = derive.Each(cfg, w.routes.ToTable(), w.rules, derived)
	}
	require.NoError(w, err)
	w.Cleanup(w.second.Close)
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
		w.loop = w.newLoop()
		run("loop", w.loop.Run)
	}
}

func (w *forceWalk) newLoop() *reconciler.Loop[*rule] {
	cfg := reconciler.Config[*rule]{
		DB: w.db, Table: w.rules, Operations: w.wall, Lister: w.wall,
		Equal: func(wanted, found *rule) bool { return wanted.Want == found.Want },
		Options: []reconciler.Option{
			reconciler.WithRegistry(w.registry), reconciler.WithRetry(5*time.Millisecond, 50*time.Millisecond),
			reconciler.WithSettings(func(s *reconciler.Settings) {
				s.Concurrency = 1 + w.rand.IntN(3)
				if w.rand.IntN(3) == 0 {
					s.Timeout = 25 * time.Millisecond
				}
				switch w.rand.IntN(4) {
				case 0:
					s.OperationLimiter = rate.NewLimiter(rate.Limit(20+w.rand.IntN(500)), 1)
				case 1:
					s.RoundLimiter, s.RoundSize = rate.NewLimiter(rate.Limit(50), 1), 3
				case 2:
					s.RoundSize = 1 + w.rand.IntN(3)
				}
			}),
		},
	}
	if w.rand.IntN(3) == 0 {
		cfg.Options = append(cfg.Options, reconciler.WithOrphanBudget(1+w.rand.IntN(3), 0))
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

// selects1 derives a route for each pod that a wish selects, and if places are not won, one for the first by its label.
func (w *forceWalk) selects1(r *derive.Reader, row *wish) (out []*route, err error) {
	if err := w.sick.fails("first", row.Name, "early"); err != nil {
		return nil, err
	}
	for p := range w.label.List(r, row.Places) {
		if len(out) == 0 && !w.best {
			out = append(out, w.anyRoute(row, p))
		}
		out = append(out, w.route(row, p))
	}
	if p, _, found := w.named.Get(r, favourite(row)); found && !hasAll(p, []string{row.Places}) {
		out = append(out, w.route(row, p))
	}
	return out, w.sick.fails("first", row.Name, "error", "panic")
}

// favourite is the name of a pod that a wish selects, whatever its labels are.
func favourite(row *wish) string { return fmt.Sprint("p", row.Metric) }

func selects(row *wish, p *pod) bool {
	return hasAll(p, []string{row.Places}) || p.Name == favourite(row)
}

func (w *forceWalk) route(row *wish, p *pod) *route {
	place := row.Name + ":" + p.Name
	if w.best {
		place = p.Name
	}
	return &route{Place: place, From: row.Name + row.Fail + " " + p.Name + p.Addr, Metric: row.Metric}
}

// anyRoute is the route to the first pod with the label: whatever pod that is, the place is the same.
func (w *forceWalk) anyRoute(row *wish, p *pod) *route {
	r := w.route(row, p)
	r.Place = row.Name + ":any"
	return r
}

// wants returns what the target has to have.
func (w *forceWalk) wants() map[string]string {
	best, of := map[string]*route{}, map[*route]*wish{}
	names := slices.Sorted(maps.Keys(w.wanted.wishes))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(w.wanted.wishes[a].Metric, w.wanted.wishes[b].Metric)
	})
	for _, name := range names {
		for _, p := range w.wanted.pods {
			row := w.wanted.wishes[name]
			if r := w.route(row, p); selects(row, p) && best[r.Place] == nil {
				best[r.Place], of[r] = r, row
			}
		}
		for _, pod := range slices.Sorted(maps.Keys(w.wanted.pods)) {
			if row, p := w.wanted.wishes[name], w.wanted.pods[pod]; !w.best && hasAll(p, []string{row.Places}) {
				r := w.anyRoute(row, p)
				best[r.Place], of[r] = r, row
				break
			}
		}
	}
	want := map[string]string{}
	for _, r := range best {
		rules, _ := rulesOf(r)
		for _, x := range rules {
			if want[x.Key] = x.Want; w.diamond {
				want[x.Key] += "|" + of[r].Name + of[r].Fail
			}
		}
	}
	return want
}

// loses reports whether a wish selects a pod that another wish wins.
func (w *forceWalk) loses(name string) bool {
	row, want := w.wanted.wishes[name], w.wants()
	for _, p := range w.wanted.pods {
		if selects(row, p) && !strings.Contains(want[w.route(row, p).Place+"/in"], name+"@") {
			return true
		}
	}
	return false
}

func (w *forceWalk) step() {
	switch w.rand.IntN(36) {
	case 0:
		w.stop([]string{"first", "second", "loop"}[w.rand.IntN(3)])
	case 1, 2, 3:
		w.start()
	case 4:
		w.first.Pause()
	case 5:
		w.second.Pause()
	case 6, 7, 8, 14, 15, 25:
		w.calm()
		time.Sleep(time.Duration(w.rand.IntN(300)) * time.Millisecond)
	case 9:
		w.stop("first")
		w.makeFirst()
		w.start()
	case 10:
		w.kill()
		w.boot()
	case 11, 12, 13:
		w.harm()
	case 16:
		time.Sleep(11 * time.Second) // the derivations look for what is over
	case 17:
		w.loop.Pause()
	case 18:
		n := w.rand.IntN(5)
		w.loop.PauseObjects(func(r *rule) bool { return strings.Contains(r.Key, fmt.Sprint(n)) })
	case 19:
		w.loop.ApproveResync()
	case 20:
		w.broken.Store(w.rand.IntN(3) == 0)
	case 21, 22:
		// A row is deleted and inserted again, between two questions.
		s := w.subject()
		for range 1 + w.rand.IntN(4) {
			w.write(func(wtxn statedb.WriteTxn) { w.set(wtxn, s, nil, nil) })
			w.write(func(wtxn statedb.WriteTxn) { w.put(wtxn, s) })
			time.Sleep(time.Duration(w.rand.IntN(3000)) * time.Microsecond)
		}
	case 23:
		// A row that changes all the time is waited for.
		s := w.subject()
		for i := range 40 {
			if i == 5 {
				w.await(s, time.Minute)
			}
			w.write(func(wtxn statedb.WriteTxn) { w.put(wtxn, s) })
			time.Sleep(time.Duration(w.rand.IntN(3000)) * time.Microsecond)
		}
	case 24:
		if w.many {
			w.write(func(wtxn statedb.WriteTxn) {
				for i := range 40 {
					w.put(wtxn, subject{"pods", fmt.Sprint("b", i)})
				}
			})
		}
	case 26, 27:
		w.sicken()
	case 28:
		// It lasts while rows change, and until the derivations look for what is over.
		for range 3 {
			w.sicken()
			w.write(func(wtxn statedb.WriteTxn) { w.put(wtxn, w.subject()) })
		}
		time.Sleep(25 * time.Second)
		for _, s := range w.subjects() {
			w.probe(s)
		}
	case 29:
		w.recover(w.rand.IntN(2) == 0)
	case 30:
		var keys []string
		for key := range w.wants() {
			if w.rand.IntN(3) == 0 {
				keys = append(keys, key)
			}
		}
		_ = w.loop.PauseOnly(keys...) // an error if all is paused
	case 31:
		w.loop.Resume()
	default:
		w.write(func(wtxn statedb.WriteTxn) {
			for range 1 + w.rand.IntN(4) {
				if s := w.subject(); w.rand.IntN(4) == 0 {
					w.set(wtxn, s, nil, nil)
				} else {
					w.put(wtxn, s)
				}
			}
		})
		if w.rand.IntN(2) == 0 {
			synctest.Wait()
		}
		time.Sleep(time.Duration(w.rand.IntN(8)) * time.Millisecond)
	}
}

// calm has all parts run, with a target and functions that work.
func (w *forceWalk) calm() {
	w.wall.heal()
	w.start()
	w.first.Resume()
	w.second.Resume()
	w.loop.Resume()
	w.recover(true)
}

// sicken has a function of a derivation fail from its next call on.
func (w *forceWalk) sicken() {
	what := illnesses[w.rand.IntN(len(illnesses))]
	wish, isOfWish := fmt.Sprint("w", w.rand.IntN(5)), slices.Index(illnesses, what) < 4
	rules := slices.Sorted(maps.Keys(w.wants()))
	illness := "first/" + what + "/" + wish
	switch second := w.rand.IntN(2) == 0; {
	case isOfWish && !second || len(rules) == 0:
		isOfWish, second = true, false
	default:
		isOfWish = false
		rule := rules[w.rand.IntN(len(rules))]
		place := rule[:strings.IndexByte(rule, '/')]
		switch {
		case !second:
			illness = "first/" + what + "/" + place
		case slices.Index(illnesses, what) < 4:
			illness = "second/" + what + "/" + place
		default:
			illness = "second/" + what + "/" + rule
		}
	}
	w.mu.Lock()
	if isOfWish {
		w.unwell[wish] = never
		if what == "early" {
			w.early[wish] = never
		}
	}
	w.mu.Unlock()
	w.sick.mu.Lock()
	w.sick.with[illness] = true
	w.sick.mu.Unlock()
	if w.rand.IntN(2) == 0 {
		// It also fails for what has not changed.
		_, _ = w.first.Refresh(w.Context(), wish)
	}
}

// recover ends all failures of functions, and if again is set, has those called again that have failed.
func (w *forceWalk) recover(again bool) {
	w.sick.mu.Lock()
	clear(w.sick.with)
	w.sick.mu.Unlock()
	if !again {
		return
	}
	_, _ = w.first.Retry(w.Context())
	_, _ = w.second.Retry(w.Context())
	if synctest.Wait(); w.stops["first"] == nil || w.first.Figures().Paused {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range []map[string]int{w.unwell, w.early} {
		for name := range all {
			all[name] = min(all[name], len(w.states)-1)
		}
	}
}

// harm makes the target slow, or operations on a key of now fail or hang.
func (w *forceWalk) harm() {
	keys := slices.Sorted(maps.Keys(w.wants()))
	w.wall.mu.Lock()
	defer w.wall.mu.Unlock()
	if w.wall.odd = w.rand.IntN(3) == 0; w.wall.odd {
		return
	}
	if len(keys) == 0 || w.rand.IntN(4) == 0 {
		w.wall.slow = time.Duration(w.rand.IntN(40)) * time.Millisecond
		return
	}
	harmed := w.wall.fail
	if w.rand.IntN(3) == 0 {
		harmed = w.wall.hang
	}
	harmed[keys[w.rand.IntN(len(keys))]] = true
}

func (w *forceWalk) write(write func(wtxn statedb.WriteTxn)) {
	wtxn := w.db.WriteTxn(w.wishes, w.pods)
	w.mu.Lock()
	write(wtxn)
	w.states = append(w.states, w.wants())
	wtxn.Commit()
	w.mu.Unlock()
}

// put writes a new version of a row. mu is held.
func (w *forceWalk) put(wtxn statedb.WriteTxn, s subject) {
	w.last++
	version := fmt.Sprint("@", w.last, ".")
	if s.table == "wishes" {
		w.set(wtxn, s, &wish{Name: s.name, Places: fmt.Sprint("l", w.rand.IntN(3)), Metric: w.rand.IntN(3), Fail: version}, nil)
		return
	}
	p := &pod{Name: s.name, Addr: version}
	for i := range 3 {
		if w.rand.IntN(2) == 0 {
			p.Labels += fmt.Sprint(" l", i)
		}
	}
	w.set(wtxn, s, nil, p)
}

// set writes a row, or deletes it if both are nil. mu is held.
func (w *forceWalk) set(wtxn statedb.WriteTxn, s subject, row *wish, p *pod) {
	// A row that is inserted again in another process has the version that it had.
	version, err := w.last+1, error(nil)
	switch {
	case row != nil:
		version = versionIn(row.Fail, "")
	case p != nil:
		version = versionIn(p.Addr, "")
	}
	w.since[s.String()] = asked{len(w.states), version}
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

// asked returns the first state with the present version of a row.
func (w *forceWalk) asked(s subject) asked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since[s.String()]
}

// probe asks about a row.
func (w *forceWalk) probe(s subject) {
	since, registry := w.asked(s), w.registry
	f, err := registry.InForce(w.Context(), s.table, s.name)
	w.mu.Lock()
	switch {
	case err != nil && !errors.Is(err, inspect.ErrNoReconciler), err == nil && !f.Yes && len(f.HeldUpBy) == 0:
		w.Errorf("%s: %v: %+v", s, err, f)
	case f.Yes:
		w.yes++
	case err == nil:
		w.no++
	}
	w.mu.Unlock()
	if f.Yes {
		w.check(s, since)
	}
}

// await begins a wait for a row.
func (w *forceWalk) await(s subject, patience time.Duration) {
	since, registry := w.asked(s), w.registry
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.waits.Go(func() {
		defer cancel()
		f, err := registry.WaitInForce(ctx, s.table, s.name)
		if err == nil {
			w.check(s, since)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case err != nil:
			w.gaveUp = append(w.gaveUp, err)
		case !f.Yes:
			w.Errorf("%s: %+v", s, f)
		default:
			w.waited++
		}
	})
}

// excused reports whether what the target should have under a key is not known, since a wish has failed: then the
// derivations go by what it wanted before, and by nothing that it has not looked up. mu is held.
func (w *forceWalk) excused(s subject, key string, since asked) bool {
	if w.best {
		return slices.ContainsFunc(slices.Collect(maps.Values(w.unwell)), func(until int) bool { return until >= since.state })
	}
	until, is := w.early[key[:strings.IndexByte(key, ':')]]
	return s.table == "pods" && is && until >= since.state
}

// versionIn returns the version of a row that a text mentions; 0 if it does not.
func versionIn(text, name string) (version int) {
	if _, rest, is := strings.Cut(text, name+"@"); is {
		version, _ = strconv.Atoi(rest[:strings.IndexByte(rest, '.')])
	}
	return version
}

// check requires that the target has of a row what one of the states since a number wants.
func (w *forceWalk) check(s subject, since asked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	has, states := w.wall.contents(), w.states[since.state:]
	keys := maps.Clone(has)
	for _, want := range states {
		maps.Copy(keys, want)
	}
	mentions := func(content string) bool { return strings.Contains(content, s.name+"@") }
	for key := range keys {
		// What another process has left under a key that another row has wanted since is that row's.
		if w.wall.isOld(key) && slices.ContainsFunc(w.states, func(want map[string]string) bool {
			return want[key] != "" && !mentions(want[key])
		}) {
			continue
		}
		// Each way leads to a part of the content.
		for way := range 2 {
			now := part(has[key], way)
			if version := versionIn(now, s.name); version > 0 && version < since.version {
				w.Errorf("%s was said to be in force early: the target has %q under %s, which is older than version %d", s, has[key], key, since.version)
			}
			if w.excused(s, key, since) {
				continue
			}
			// The second derivation may have seen a wish in a version that the first one has not.
			all, is := true, way == 1 && mentions(now)
			for _, want := range states {
				all, is = all && mentions(part(want[key], way)), is || part(want[key], way) == now
			}
			if (all || mentions(now)) && !is {
				w.Errorf("%s was said to be in force early: the target has %q under %s, wanted is %q", s, has[key], key, states[len(states)-1][key])
			}
		}
	}
}

// part returns the part of a content that comes by a way.
func part(content string, way int) string {
	parts := strings.SplitN(content+"|", "|", 3)
	return parts[way]
}
