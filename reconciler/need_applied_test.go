// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// node is a row of these tests: a role, or a grant, which needs the role On.
type node struct {
	ID, On string
	Value  int
	Status reconciler.Status
}

func (n *node) Clone() *node          { c := *n; return &c }
func (n *node) TableHeader() []string { return []string{"ID"} }
func (n *node) TableRow() []string    { return []string{n.ID} }

func nodeIndex(name string, unique bool, text func(*node) string) statedb.Index[*node, string] {
	return statedb.Index[*node, string]{
		Name: name, Unique: unique, FromKey: index.String, FromString: index.FromString,
		FromObject: func(n *node) index.KeySet { return index.NewKeySet(index.String(text(n))) },
	}
}

var (
	nodeID = nodeIndex("id", true, func(n *node) string { return n.ID })
	nodeOn = nodeIndex("on", false, func(n *node) string { return n.On })
)

// kinds has roles and grants, each with a loop, and a server that has them.
type kinds struct {
	*testing.T
	db            *statedb.DB
	roles, grants kind
	stops         []func()

	mu sync.Mutex
	// has are the objects of the server, by name and ID, such as "role a", with their values. runs counts the calls of
	// operations, fails has the errors of the server, takes how long an operation takes.
	has   map[string]int
	runs  map[string]int
	fails map[string]error
	takes map[string]time.Duration
	log   []string
}

// kind is a table with its loop.
type kind struct {
	name   string
	table  statedb.RWTable[*node]
	loop   *reconciler.Loop[*node]
	beside bool
	// update and remove are what the operations need.
	update func(ctx context.Context, txn statedb.ReadTxn, n *node) error
	remove func(ctx context.Context, n *node) error
}

// kindOperations are the operations of a kind.
type kindOperations struct {
	x *kinds
	k *kind
}

// needs returns the functions of now.
func (o kindOperations) needs() kind {
	o.x.mu.Lock()
	defer o.x.mu.Unlock()
	return *o.k
}

func (o kindOperations) do(ctx context.Context, n *node, needs func() error, carryOut func(name string)) error {
	x, name := o.x, o.k.name+" "+n.ID
	x.mu.Lock()
	x.runs[name]++
	takes, fails := x.takes[name], x.fails[name]
	x.mu.Unlock()
	time.Sleep(takes)
	if err := needs(); err != nil {
		return err
	}
	if fails != nil {
		return fails
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	carryOut(name)
	return nil
}

func (o kindOperations) Update(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, n *node) error {
	return o.do(ctx, n, func() error { return o.needs().update(ctx, txn, n) }, func(name string) {
		o.x.has[name] = n.Value
		o.x.log = append(o.x.log, "+"+name)
	})
}

func (o kindOperations) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, n *node) error {
	return o.do(ctx, n, func() error { return o.needs().remove(ctx, n) }, func(name string) {
		delete(o.x.has, name)
		o.x.log = append(o.x.log, "-"+name)
	})
}

type kindBatches struct{ kindOperations }

func (b kindBatches) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*node]) {
	for i, e := range batch {
		batch[i].Result = b.Update(ctx, txn, e.Revision, e.Object)
	}
}

func (b kindBatches) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*node]) {
	for i, e := range batch {
		batch[i].Result = b.Delete(ctx, txn, e.Revision, e.Object)
	}
}

// newKinds returns kinds whose loops are made and not run.
func newKinds(t *testing.T, beside bool, way string, opts ...reconciler.Option) *kinds {
	x := &kinds{
		T: t, db: reconcilertest.NewDB(t), has: map[string]int{}, runs: map[string]int{}, fails: map[string]error{}, takes: map[string]time.Duration{},
	}
	x.roles.init(x, "role", beside, way, opts)
	x.grants.init(x, "grant", beside, way, opts)
	x.grants.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
		_, err := reconciler.NeedApplied(ctx, txn, x.roles.loop, nodeID.Query(n.On), "role "+n.On)
		return err
	}
	x.roles.remove = func(ctx context.Context, n *node) error {
		return reconciler.NeedDeleted(ctx, x.grants.loop, func(g *node) bool { return g.On == n.ID }, "a grant of "+n.ID)
	}
	return x
}

func (k *kind) init(x *kinds, name string, beside bool, way string, opts []reconciler.Option) {
	k.name, k.beside = name, beside
	k.update = func(context.Context, statedb.ReadTxn, *node) error { return nil }
	k.remove = func(context.Context, *node) error { return nil }
	var err error
	k.table, err = statedb.NewTable(x.db, name+"s", nodeID, nodeOn)
	require.NoError(x, err)
	k.make(x, way, opts)
}

// kindLister lists the objects of a kind, and kindGetter also gets them.
type kindLister struct{ kindOperations }

func (l kindLister) List(_ context.Context, _ statedb.ReadTxn, yield func(*node) bool) error {
	for name, value := range l.x.holds() {
		if id, is := strings.CutPrefix(name, l.k.name+" "); is && !yield(&node{ID: id, Value: value}) {
			break
		}
	}
	return nil
}

type kindGetter struct{ kindLister }

func (g kindGetter) Get(_ context.Context, _ statedb.ReadTxn, n *node) (*node, bool, error) {
	g.x.mu.Lock()
	value, has := g.x.has[g.k.name+" "+n.ID]
	takes := g.x.takes["get"]
	g.x.mu.Unlock()
	time.Sleep(takes)
	return &node{ID: n.ID, Value: value}, has, nil
}

// make makes a loop for the table. way is how its operations are called, and may say that the server "lists" or "gets".
func (k *kind) make(x *kinds, way string, opts []reconciler.Option) {
	operations := kindOperations{x, k}
	way, looks, _ := strings.Cut(way, ", ")
	cfg := reconciler.Config[*node]{DB: x.db, Table: k.table, Operations: operations, Options: append([]reconciler.Option{
		reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) {
			s.Jitter, s.BlockedRecheck, s.MinBackoff, s.MaxBackoff = 0, 0, 100*time.Millisecond, time.Second
			if way == "workers" || way == "groups" {
				s.Concurrency = 4
			}
		}),
	}, opts...)}
	if way == "groups" {
		cfg.SerialBy = func(n *node) string { return n.On }
	}
	if way == "batches" {
		cfg.BatchOperations = kindBatches{operations}
	}
	switch cfg.Equal = func(wanted, found *node) bool { return wanted.Value == found.Value }; looks {
	case "lists":
		cfg.Lister = kindLister{operations}
	case "gets":
		cfg.Lister = kindGetter{kindLister{operations}}
	default:
		cfg.Equal = nil
	}
	if !k.beside {
		cfg.Clone = (*node).Clone
		cfg.GetStatus = func(n *node) reconciler.Status { return n.Status }
		cfg.SetStatus = func(n *node, s reconciler.Status) *node { n.Status = s; return n }
	}
	loop, err := reconciler.New(cfg)
	require.NoError(x, err)
	k.loop = loop
}

// run runs a loop.
func (x *kinds) run(k *kind) (stop func()) {
	stop = reconcilertest.Go(x, k.loop.Run)
	x.stops = append(x.stops, stop)
	synctest.Wait()
	return stop
}

// put writes a row.
func (x *kinds) put(k *kind, id, on string, value int) {
	harness.Insert(x, x.db, k.table, &node{ID: id, On: on, Value: value, Status: reconciler.StatusPending()})
}

func (x *kinds) remove(k *kind, ids ...string) {
	for _, id := range ids {
		harness.Delete(x, x.db, k.table, &node{ID: id})
	}
}

// pass lets time go by, and waits until the loops are idle.
func (x *kinds) pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// status returns the status of a row, with its text.
func (x *kinds) status(k *kind, id string) string {
	s, found := k.loop.Status(x.db.ReadTxn(), &node{ID: id})
	require.True(x, found, "%s %s", k.name, id)
	return strings.TrimSpace(s.Kind.String() + " " + s.GetError())
}

func (x *kinds) ran(name string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.runs[name]
}

func (x *kinds) holds() map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.has)
}

func (x *kinds) set(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
}

// inKinds runs a test with both ledgers, and with single operations, batches and workers. Nothing runs again by
// the clock, except for retries.
func inKinds(t *testing.T, test func(x *kinds)) {
	for _, beside := range []bool{false, true} {
		for _, way := range []string{"single", "batches", "workers"} {
			t.Run(fmt.Sprintf("beside %t, %s", beside, way), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := newKinds(t, beside, way)
					x.run(&x.roles)
					x.run(&x.grants)
					test(x)
					for _, stop := range x.stops {
						stop()
					}
				})
			})
		}
	}
}

var errServer = errors.New("the server refuses")

func TestObjectRunsWhenWhatItNeedsIsApplied(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.set(func() { x.fails["role a"] = errServer })
		x.put(&x.grants, "g", "a", 1)
		x.pass(20 * time.Millisecond)
		require.Equal(x, "Blocked role a is missing", x.status(&x.grants, "g"))
		x.put(&x.roles, "a", "", 1)
		x.pass(10 * time.Second)
		require.Equal(x, "Blocked role a is not applied", x.status(&x.grants, "g"))
		require.Greater(x, x.ran("role a"), 5)
		require.Equal(x, 2, x.ran("grant g"), "failures of the role are no reason to run")

		x.set(func() { delete(x.fails, "role a") })
		for began := time.Now(); x.ran("grant g") == 2; x.pass(time.Millisecond) {
			require.Less(x, time.Since(began), 2*time.Second)
			_, applied := x.holds()["role a"]
			require.False(x, applied, "the grant runs at once when the role is applied")
		}
		x.pass(30 * time.Millisecond)
		require.Equal(x, "Done", x.status(&x.grants, "g"))
		require.Equal(x, 3, x.ran("grant g"))

		// A change of the role does not run what is Done, and what is new waits for it.
		x.set(func() { x.fails["role a"] = errServer })
		x.put(&x.roles, "a", "", 2)
		x.pass(50 * time.Millisecond)
		require.Equal(x, 3, x.ran("grant g"))
		x.put(&x.grants, "h", "a", 1)
		x.pass(30 * time.Millisecond)
		require.Equal(x, "Blocked role a is not applied", x.status(&x.grants, "h"))
		x.remove(&x.roles, "a")
		x.pass(30 * time.Millisecond)
		require.Equal(x, "Blocked role a is missing", x.status(&x.grants, "h"))
	})
}

// Undoing what depends on a row that is only not applied yet would take everything down at each start.
func TestRowThatIsNotAppliedIsNotKnown(t *testing.T) {
	inKinds(t, func(x *kinds) {
		var known, unknown int
		needs := x.grants.update
		x.grants.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
			err := needs(ctx, txn, n)
			x.set(func() {
				if errors.Is(err, reconciler.ErrNotKnown) {
					unknown++
				} else {
					known++
				}
			})
			require.True(x, reconciler.IsBlocked(err))
			return err
		}
		wtxn := x.db.WriteTxn(x.roles.table)
		filled := x.roles.table.RegisterInitializer(wtxn, "server")
		wtxn.Commit()
		x.set(func() { x.fails["role b"] = errServer })
		x.put(&x.roles, "b", "", 1)
		x.put(&x.grants, "g", "a", 1)
		x.put(&x.grants, "h", "b", 1)
		x.pass(30 * time.Millisecond)
		require.Equal(x, `Blocked role a is not known yet: table "roles" is not initialised`, x.status(&x.grants, "g"))
		require.Equal(x, `Blocked role b is not applied`, x.status(&x.grants, "h"))
		require.Zero(x, known)
		require.NotZero(x, unknown)
		wtxn = x.db.WriteTxn(x.roles.table)
		filled(wtxn)
		wtxn.Commit()
		x.pass(30 * time.Millisecond)
		require.Equal(x, "Blocked role a is missing", x.status(&x.grants, "g"))
		require.Equal(x, 1, known)
	})
}

// A nil loop is the one of the operation.
func TestRowMayNeedAnotherOfItsTable(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.roles.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
			if n.On == "" {
				return nil
			}
			_, err := reconciler.NeedApplied[*node](ctx, txn, nil, nodeID.Query(n.On), "role "+n.On)
			return err
		}
		const n = 30
		for i := range n {
			x.put(&x.roles, fmt.Sprint(i), fmt.Sprint(i+1), 1)
		}
		x.pass(30 * time.Millisecond)
		require.Empty(x, x.holds())
		x.put(&x.roles, fmt.Sprint(n), "", 1)
		x.pass(time.Second)
		require.Len(x, x.holds(), n+1)
		for i := range n {
			require.Equal(x, "Done", x.status(&x.roles, fmt.Sprint(i)))
			require.LessOrEqual(x, x.ran(fmt.Sprintf("role %d", i)), 3)
			require.Equal(x, fmt.Sprintf("+role %d", n-i), x.log[i])
		}
	})
	_, err := reconciler.NeedApplied[*node](t.Context(), nil, nil, nodeID.Query("a"), "role a")
	require.ErrorContains(t, err, "role a is needed from a nil loop, and the context is not that of an operation on a *reconciler_test.node")
}

// Without an index of the table, only the channel of the query tells when the row comes.
func TestNeedMayUseAnyIndex(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.grants.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
			_, err := reconciler.NeedApplied(ctx, txn, x.roles.loop, nodeOn.Query(n.On), "the role on "+n.On)
			return err
		}
		x.put(&x.grants, "g", "a", 1)
		x.pass(30 * time.Millisecond)
		require.Equal(x, "Blocked the role on a is missing", x.status(&x.grants, "g"))
		x.set(func() { x.fails["role r"] = errServer })
		x.put(&x.roles, "r", "a", 1)
		x.pass(30 * time.Millisecond)
		require.Equal(x, "Blocked the role on a is not applied", x.status(&x.grants, "g"))
		x.set(func() { delete(x.fails, "role r") })
		x.pass(time.Second)
		require.Equal(x, "Done", x.status(&x.grants, "g"))
	})
}

// Ten thousand objects wait, half of them for a row that is missing and half for one that fails, while other rows of that
// table are written all the time.
func TestObjectsThatNeedARowDoNotRunForOtherRows(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprintf("beside %t", beside), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newKinds(t, beside, "single")
				stopRoles, stopGrants := x.run(&x.roles), x.run(&x.grants)
				const n = 10_000
				x.set(func() { x.fails["role bad"] = errServer })
				x.put(&x.roles, "bad", "", 1)
				x.pass(50 * time.Millisecond)
				wtxn := x.db.WriteTxn(x.grants.table)
				for i := range n {
					on := []string{"bad", fmt.Sprintf("missing-%d", i)}[i%2]
					_, _, err := x.grants.table.Insert(wtxn, &node{ID: fmt.Sprint(i), On: on, Status: reconciler.StatusPending()})
					require.NoError(x, err)
				}
				wtxn.Commit()
				x.pass(time.Second)
				runs := func() (sum int) {
					x.mu.Lock()
					defer x.mu.Unlock()
					for name, runs := range x.runs {
						if strings.HasPrefix(name, "grant ") {
							sum += runs
						}
					}
					return sum
				}
				require.Equal(x, n, runs())
				for i := range 200 {
					x.put(&x.roles, fmt.Sprintf("missing-x%d", i%20), "", i)
					x.pass(15 * time.Millisecond)
				}
				require.Equal(x, n, runs(), "a write of another row, or its outcome, runs them")
				require.Greater(x, x.ran("role missing-x1"), 9)

				x.put(&x.roles, "missing-1", "", 1)
				x.pass(50 * time.Millisecond)
				require.Equal(x, n+1, runs())
				require.Equal(x, "Done", x.status(&x.grants, "1"))
				x.set(func() { delete(x.fails, "role bad") })
				x.pass(2 * time.Second)
				require.Equal(x, n+1+n/2, runs())
				stopGrants()
				stopRoles()
			})
		})
	}
}

// A row that is written again faster than its operation takes is never seen Done.
func TestNeedIsMetAlthoughTheRowIsWrittenAllTheTime(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.grants.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
			for _, id := range []string{"a", "b"} {
				if _, err := reconciler.NeedApplied(ctx, txn, x.roles.loop, nodeID.Query(id), "role "+id); err != nil {
					return err
				}
			}
			return nil
		}
		x.set(func() { x.takes["role a"], x.takes["role b"] = 30*time.Millisecond, 30*time.Millisecond })
		heat := func(d time.Duration) {
			for end, i := time.Now().Add(d), 0; time.Now().Before(end); i++ {
				x.put(&x.roles, "a", "", i)
				x.put(&x.roles, "b", "", i)
				time.Sleep(10 * time.Millisecond)
			}
		}
		heat(100 * time.Millisecond)
		x.put(&x.grants, "g", "", 1)
		heat(2 * time.Second)
		require.NotEqual(x, "Done", x.status(&x.roles, "a"))
		require.NotEqual(x, "Done", x.status(&x.roles, "b"))
		require.Equal(x, "Done", x.status(&x.grants, "g"))
		require.LessOrEqual(x, x.ran("grant g"), 5)
		x.pass(time.Second)
	})
}

// A row that was deleted and came back does not count as applied.
func TestRowThatIsBackIsNotApplied(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.roles.remove = func(context.Context, *node) error { return nil }
		x.put(&x.roles, "a", "", 1)
		x.pass(50 * time.Millisecond)
		x.set(func() { x.fails["role a"] = errServer })
		x.put(&x.roles, "a", "", 2)
		x.put(&x.grants, "g", "a", 1)
		x.pass(30 * time.Millisecond)
		require.Equal(x, "Blocked role a is not applied", x.status(&x.grants, "g"))
		x.set(func() { delete(x.fails, "role a") })
		x.set(func() { x.takes["role a"] = 100 * time.Millisecond })
		x.remove(&x.roles, "a")
		x.pass(50 * time.Millisecond)
		x.put(&x.roles, "a", "", 3)
		x.pass(100 * time.Millisecond)
		require.NotContains(x, x.holds(), "role a")
		require.NotContains(x, x.holds(), "grant g")
		x.pass(time.Second)
		require.Equal(x, "Done", x.status(&x.grants, "g"))
	})
}

// The program may say itself that a row is Done, if the rows carry the status.
func TestRowThatTheProgramSetsToDoneIsApplied(t *testing.T) {
	inKinds(t, func(x *kinds) {
		if x.roles.beside {
			return
		}
		x.put(&x.grants, "g", "a", 1)
		x.set(func() { x.fails["role b"] = errServer })
		x.put(&x.roles, "b", "", 1)
		x.put(&x.grants, "h", "b", 1)
		x.pass(50 * time.Millisecond)
		for _, id := range []string{"a", "b"} {
			harness.Insert(x, x.db, x.roles.table, &node{ID: id, Status: reconciler.StatusDone()})
		}
		x.pass(50 * time.Millisecond)
		require.Equal(x, "Done", x.status(&x.grants, "g"))
		require.Equal(x, "Done", x.status(&x.grants, "h"))
	})
}

func TestSeveralNeedsGiveOneLine(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.grants.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
			var errs []error
			for _, id := range []string{"a", "b", "a"} {
				_, err := reconciler.NeedApplied(ctx, txn, x.roles.loop, nodeID.Query(id), "role "+id)
				errs = append(errs, err)
			}
			_, err := reconciler.Need(txn, x.roles.table, nodeID.Query("c"), "role c")
			return errors.Join(append(errs, err)...)
		}
		x.set(func() { x.fails["role b"] = errServer })
		x.put(&x.roles, "b", "", 1)
		x.put(&x.grants, "g", "", 1)
		x.pass(50 * time.Millisecond)
		require.Equal(x, "Blocked role a is missing; role b is not applied; role a is missing; role c is missing", x.status(&x.grants, "g"))
		x.put(&x.roles, "a", "", 1)
		x.put(&x.roles, "c", "", 1)
		x.pass(30 * time.Millisecond)
		require.Equal(x, "Blocked role b is not applied", x.status(&x.grants, "g"))
		x.set(func() { delete(x.fails, "role b") })
		x.pass(2 * time.Second)
		require.Equal(x, "Done", x.status(&x.grants, "g"))
	})
}

// The reason in the status names what is needed. Its error, which may change at each retry, is added when somebody reads.
func TestErrorOfTheNeededRowIsAddedWhenItIsRead(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.set(func() { x.fails["role a"] = errServer })
		x.put(&x.roles, "a", "", 1)
		x.put(&x.grants, "g", "a", 1)
		x.pass(50 * time.Millisecond)
		explained := x.grants.loop.Explain(x.Context(), "g")
		require.Equal(x, "role a is not applied", explained.BlockedOn)
		require.Equal(x, "its operation waits for something: role a is not applied (a (roles) failed: the server refuses)", explained.Why)
		rest, err := x.grants.loop.WaitFor(x.Context(), reconciler.Attempted, &node{ID: "g"})
		require.NoError(x, err)
		require.EqualError(x, rest.Err(), `"g": blocked: role a is not applied (a (roles) failed: the server refuses)`)
		rest, err = x.grants.loop.WaitAll(x.Context(), reconciler.Attempted)
		require.NoError(x, err)
		require.EqualError(x, rest.Err(), `"g": blocked: role a is not applied (a (roles) failed: the server refuses)`)
		x.set(func() { x.fails["role a"] = errors.New("it refuses for another reason") })
		x.pass(2 * time.Second)
		require.Contains(x, x.grants.loop.Explain(x.Context(), "g").Why, "for another reason")
		require.Equal(x, 1, x.ran("grant g"))
	})
}

func TestCircleOfNeedsIsNamed(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.roles.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
			_, err := reconciler.NeedApplied(ctx, txn, x.grants.loop, nodeID.Query(n.On), "grant "+n.On)
			return err
		}
		x.put(&x.roles, "a", "g", 1)
		x.put(&x.grants, "g", "a", 1)
		x.put(&x.grants, "h", "a", 1)
		x.put(&x.roles, "self", "own", 1)
		x.put(&x.grants, "own", "self", 1)
		x.pass(50 * time.Millisecond)
		const circle = ". This never ends by itself, since they need each other: "
		why := func(k *kind, id string) string { return k.loop.Explain(x.Context(), id).Why }
		require.Contains(x, why(&x.grants, "g"), circle+"g (grants) -> a (roles) -> g (grants)")
		require.Contains(x, why(&x.grants, "h"), circle+"a (roles) -> g (grants) -> a (roles)", "h itself is not in it")
		require.Contains(x, why(&x.roles, "a"), circle+"a (roles) -> g (grants) -> a (roles)")

		// It ends when one of them changes.
		x.put(&x.roles, "free", "", 1)
		x.set(func() { x.roles.update = func(context.Context, statedb.ReadTxn, *node) error { return nil } })
		x.put(&x.roles, "a", "", 2)
		x.pass(50 * time.Millisecond)
		require.Equal(x, "Done", x.status(&x.grants, "g"))
		require.Equal(x, "Done", x.status(&x.grants, "h"))
		require.NotContains(x, why(&x.grants, "g"), circle)
	})
}

func TestNeedOfALoopThatDoesNotRun(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprintf("beside %t", beside), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newKinds(t, beside, "single")
				stopGrants := x.run(&x.grants)
				x.put(&x.roles, "a", "", 1)
				x.put(&x.roles, "gone", "", 1)
				x.put(&x.grants, "g", "a", 1)
				x.put(&x.grants, "h", "gone", 1)
				x.put(&x.grants, "i", "b", 1)
				x.pass(50 * time.Millisecond)
				require.Equal(x, "Blocked role a is not applied", x.status(&x.grants, "g"))
				require.Contains(x, x.grants.loop.Explain(x.Context(), "g").Why, `(reconciler "roles" has not been started)`)
				x.remove(&x.roles, "gone")
				stopRoles := x.run(&x.roles)
				x.pass(50 * time.Millisecond)
				require.Equal(x, "Done", x.status(&x.grants, "g"))
				require.Equal(x, "Blocked role gone is missing", x.status(&x.grants, "h"))

				x.roles.loop.Pause()
				x.put(&x.roles, "b", "", 1)
				x.pass(50 * time.Millisecond)
				require.Equal(x, "Blocked role b is missing", x.status(&x.grants, "i"))
				x.roles.loop.Resume()
				x.pass(50 * time.Millisecond)
				require.Equal(x, "Done", x.status(&x.grants, "i"))

				x.set(func() { x.fails["role c"] = errServer })
				x.put(&x.roles, "c", "", 1)
				x.put(&x.grants, "j", "c", 1)
				x.pass(50 * time.Millisecond)
				require.Equal(x, "Blocked role c is not applied", x.status(&x.grants, "j"))
				stopRoles()
				x.pass(50 * time.Millisecond)
				require.Equal(x, `Blocked role c is not applied: reconciler "roles" has stopped`, x.status(&x.grants, "j"))
				ran := x.ran("grant j")
				x.pass(time.Minute)
				require.Equal(x, ran, x.ran("grant j"), "it spins")
				stopGrants()
			})
		})
	}
}
