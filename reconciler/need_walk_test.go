// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
)

// TestNeedsKeepTheOrderOfTheTarget runs random walks of two reconcilers that need each other, with both ledgers and all
// kinds of operations. A role may be below another one, which it needs; a grant needs its role. A role is deleted after
// its grants and after the roles below. Rows are written and deleted, alone and together, come back, fail and take time,
// while the loops are paused and resumed. Somebody else drops roles, and what needs them suspects them. It checks:
//
//	(a) An operation that needs a role which is Done finds it in the target, unless another program has dropped it.
//	(b) A role is dropped only if the target has none of the objects that need it and were deleted with it or before.
//	(c) When the faults end, all is Done within a minute, except what needs a row that is missing: that is Blocked.
//	    Suspicions find the roles that others have dropped.
//	(d) What has suspected a role fails only if a look that began later can have found it.
//
// STATEKEEL_NEEDS runs the walk with that seed only.
func TestNeedsKeepTheOrderOfTheTarget(t *testing.T) {
	first, n := rand.Uint64()>>1, long.Times(60)
	if one := os.Getenv("STATEKEEL_NEEDS"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		require.NoError(t, err)
		first, n = seed, 1
	}
	t.Logf("%d walks, seeds from %d", n, first)
	var failed atomic.Int64
	for g := range 2 {
		t.Run(fmt.Sprintf("group %d", g), func(t *testing.T) {
			t.Parallel()
			for i := g; i < n && failed.Load() == 0; i += 2 {
				synctest.Test(t, func(t *testing.T) {
					w := newNeedWalk(t, first+uint64(i))
					if w.run(); len(w.wrong) > 0 {
						failed.Add(1)
						t.Errorf("STATEKEEL_NEEDS=%d: %s\n%s\n    %s", first+uint64(i), w.shape, strings.Join(w.wrong, "\n"),
							strings.Join(w.log[max(0, len(w.log)-100):], "\n    "))
					}
				})
			}
		})
	}
}

// needWalk is one walk. The lock of kinds guards what its operations use.
type needWalk struct {
	*kinds
	// rng is for the goroutine of the walk, chance for the operations.
	rng, chance *rand.Rand
	shape       string
	// gone is when the row of an object was deleted last, dropped when others have dropped a role; nil if nothing looks at the
	// target. suspected is when the last operation on an object has suspected its role; nil if that is not known.
	gone, dropped, suspected map[string]time.Time
	// calm: the faults have ended.
	calm  bool
	wrong []string
}

func newNeedWalk(t *testing.T, seed uint64) *needWalk {
	w := &needWalk{rng: rand.New(rand.NewPCG(seed, 0)), chance: rand.New(rand.NewPCG(seed, 1)), gone: map[string]time.Time{}}
	beside, way := w.rng.IntN(2) == 0, pick(w.rng, "single", "batches", "workers", "groups")
	recheck, limit := pick(w.rng, 0, 0, time.Second), pick(w.rng, 0, 0, 500)
	breaker, refresh := pick(w.rng, 0, 0, 3), pick(w.rng, 0, 0, 100*time.Millisecond)
	if looks := pick(w.rng, "", ", lists", ", gets"); looks != "" {
		if w.dropped = map[string]time.Time{}; way != "batches" { // where one may have looked for another
			w.suspected = map[string]time.Time{}
		}
		way += looks
	}
	w.shape = fmt.Sprintf("beside %t, %s, recheck %s, limit %d/s, breaker %d, refresh %s", beside, way, recheck, limit, breaker, refresh)
	w.kinds = newKinds(t, beside, way, reconciler.WithSettings(func(s *reconciler.Settings) {
		s.BlockedRecheck, s.BreakerFailures, s.RefreshInterval = recheck, breaker, refresh
		s.MinBackoff, s.MaxBackoff, s.RoundSize = 20*time.Millisecond, 200*time.Millisecond, pick(w.rng, 1, 3, 1000)
		if limit > 0 {
			s.OperationLimiter = rate.NewLimiter(rate.Limit(limit), 2)
		}
	}))
	w.set(func() { w.takes["get"] = pick(w.rng, 0, 2*time.Millisecond, 30*time.Millisecond) })
	needs := func(ctx context.Context, txn statedb.ReadTxn, name string, loop *reconciler.Loop[*node], n *node) error {
		if n.On == "" {
			return nil
		}
		role, err := reconciler.NeedApplied(ctx, txn, loop, nodeID.Query(n.On), "role "+n.On)
		if _, has := w.holds()["role "+n.On]; err == nil && !has && w.wasDropped(n.On) {
			return w.suspect(name, n.On, reconciler.Suspect(ctx, loop, role, errServer))
		}
		return err
	}
	w.grants.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
		return w.try(needs(ctx, txn, "grant "+n.ID, w.roles.loop, n), func() { w.checkNeed("grant "+n.ID, n) })
	}
	w.roles.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
		return w.try(needs(ctx, txn, "role "+n.ID, nil, n), func() { w.checkNeed("role "+n.ID, n) })
	}
	w.grants.remove = func(context.Context, *node) error { return w.try(nil, func() {}) }
	w.roles.remove = func(ctx context.Context, n *node) error {
		txn := w.db.ReadTxn()
		needs := func(other *node) bool { return other.On == n.ID }
		var err error
		if n.Value%2 == 0 {
			err = reconciler.NeedDeleted(ctx, w.grants.loop, needs, "a grant of "+n.ID)
			if err == nil {
				err = reconciler.NeedDeleted(ctx, nil, needs, "a role below "+n.ID)
			}
		} else {
			err = errors.Join(reconciler.NeedDeleted(ctx, w.grants.loop, needs, "a grant of "+n.ID), reconciler.NeedDeleted(ctx, nil, needs, "a role below "+n.ID))
		}
		return w.try(err, func() { w.checkDrop(txn, n) })
	}
	return w
}

// try fails now and then, and takes time. check is called before the operation is carried out.
func (w *needWalk) try(blocked error, check func()) error {
	if blocked != nil {
		return blocked
	}
	w.mu.Lock()
	fails, takes := !w.calm && w.chance.IntN(5) == 0, time.Duration(w.chance.IntN(4))*time.Millisecond
	w.mu.Unlock()
	check()
	time.Sleep(takes)
	if fails {
		return errServer
	}
	return nil
}

// checkNeed checks (a).
func (w *needWalk) checkNeed(name string, n *node) {
	if n.On == "" || w.wasDropped(n.On) {
		return
	}
	// The server first: a role that is Done then was in it before.
	_, has := w.holds()["role "+n.On]
	s, found := w.roles.loop.Status(w.db.ReadTxn(), &node{ID: n.On})
	if _, again := w.holds()["role "+n.On]; found && s.Kind == reconciler.StatusKindDone && !has && !again {
		w.report("(a) %s is applied without role %s", name, n.On)
	}
}

// checkDrop checks (b). before is from before the operation asked for deletions: what is deleted later may be too late,
// and what has come back is wanted.
func (w *needWalk) checkDrop(before statedb.ReadTxn, role *node) {
	now := w.db.ReadTxn()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range []*kind{&w.roles, &w.grants} {
		for id := range 10 {
			name := fmt.Sprintf("%s %d", k.name, id)
			_, has := w.has[name]
			_, _, was := k.table.Get(before, nodeID.Query(strconv.Itoa(id)))
			_, _, is := k.table.Get(now, nodeID.Query(strconv.Itoa(id)))
			if has && !was && !is && onOf(k.name, id) == role.ID && !w.gone[name].After(w.gone["role "+role.ID]) {
				w.wrong = append(w.wrong, fmt.Sprintf("(b) role %s is dropped before %s", role.ID, name))
				w.log = append(w.log, w.wrong[len(w.wrong)-1])
			}
		}
	}
}

func (w *needWalk) wasDropped(role string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.dropped[role].IsZero()
}

// suspect checks (d) for what a suspicion has returned.
func (w *needWalk) suspect(name, role string, err error) error {
	_, _, wanted := w.roles.table.Get(w.db.ReadTxn(), nodeID.Query(role))
	w.mu.Lock()
	defer w.mu.Unlock()
	_, has := w.has["role "+role]
	switch since, was := w.suspected[name]; {
	case w.suspected == nil:
	case err != errServer:
		w.suspected[name] = time.Now()
	case wanted && !has && (!was || w.dropped[role].Before(since)):
		w.wrong = append(w.wrong, fmt.Sprintf("(d) %s fails, role %s was dropped at %s, suspected at %s", name, role,
			clock(w.dropped[role]), clock(since)))
	default:
		delete(w.suspected, name)
	}
	return err
}

// drop drops a role behind the back of its loop.
func (w *needWalk) drop(role string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, has := w.has["role "+role]; has && w.dropped != nil {
		w.dropped[role] = time.Now()
		delete(w.has, "role "+role)
	}
}

func (w *needWalk) report(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	w.log = append(w.log, w.wrong[len(w.wrong)-1])
}

// There are five roles: 1 is below 0, 2 below 1, 3 and 4 below none. Each grant has a role.
const walkRoles, walkGrants = 5, 9

// onOf returns the role that an object needs; empty if none.
func onOf(kind string, id int) string {
	switch {
	case kind == "grant":
		return strconv.Itoa(id % walkRoles)
	case id == 1, id == 2:
		return strconv.Itoa(id - 1)
	}
	return ""
}

func (w *needWalk) write(k *kind, id int) {
	w.put(k, strconv.Itoa(id), onOf(k.name, id), w.rng.IntN(100))
}

// delete deletes rows with all that need them, or only these.
func (w *needWalk) delete(k *kind, id int, alone bool) {
	wtxn := w.db.WriteTxn(w.roles.table, w.grants.table)
	var drop func(k *kind, id int)
	drop = func(k *kind, id int) {
		if _, found, _ := k.table.Delete(wtxn, &node{ID: strconv.Itoa(id)}); found {
			w.set(func() { w.gone[fmt.Sprintf("%s %d", k.name, id)] = time.Now() })
		}
		if alone || k.name == "grant" {
			return
		}
		if (id == 0 || id == 1) && k.name == "role" {
			drop(&w.roles, id+1)
		}
		for g := range walkGrants {
			if onOf("grant", g) == strconv.Itoa(id) {
				drop(&w.grants, g)
			}
		}
	}
	drop(k, id)
	wtxn.Commit()
}

func (w *needWalk) step() {
	k, id := &w.roles, w.rng.IntN(walkRoles)
	if w.rng.IntN(2) == 0 {
		k, id = &w.grants, w.rng.IntN(walkGrants)
	}
	action := w.rng.IntN(15)
	w.set(func() {
		w.log = append(w.log, fmt.Sprintf("%s action %d on %s %d", clock(time.Now()), action, k.name, id))
	})
	switch action {
	case 0, 1, 2, 3:
		w.write(k, id)
	case 4:
		for id := range walkGrants {
			w.write(&w.grants, id)
		}
		for id := range walkRoles {
			w.write(&w.roles, walkRoles-1-id)
		}
	case 5, 6:
		w.delete(k, id, false)
	case 7:
		w.delete(k, id, k.name == "grant")
		time.Sleep(time.Duration(w.rng.IntN(3)) * time.Millisecond)
		w.write(k, id)
	case 8:
		k.loop.Pause()
	case 9:
		k.loop.PauseObjects(func(n *node) bool { return len(n.ID) == 1 && int(n.ID[0])%3 == id%3 })
	case 10:
		k.loop.Resume()
	case 11:
		k.loop.Reapply(w.Context(), &node{ID: strconv.Itoa(id)})
	case 12, 13:
		w.drop(strconv.Itoa(id % walkRoles))
	case 14:
		if w.dropped != nil {
			require.NoError(w, w.roles.loop.Verify(w.Context(), &node{ID: strconv.Itoa(id % walkRoles)}))
		}
	}
	time.Sleep(time.Duration(w.rng.IntN(8)*w.rng.IntN(8)) * time.Millisecond)
}

func (w *needWalk) run() {
	w.kinds.run(&w.roles)
	w.kinds.run(&w.grants)
	for range 150 {
		w.step()
	}
	w.set(func() { w.calm = true })
	w.roles.loop.Resume()
	w.grants.loop.Resume()
	for id := range walkGrants {
		w.write(&w.grants, id)
	}
	missing := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); w.pass(100 * time.Millisecond) {
		if missing = w.unsettled(); missing == "" {
			break
		}
	}
	if missing != "" {
		w.report("(c) %s", missing)
	}
	for _, stop := range w.stops {
		stop()
	}
}

// unsettled returns what (c) misses.
func (w *needWalk) unsettled() string {
	txn, held := w.db.ReadTxn(), w.holds()
	applied := map[string]bool{"": true}
	var odd []string
	for _, k := range []*kind{&w.roles, &w.grants} {
		for id := range 10 {
			name := fmt.Sprintf("%s %d", k.name, id)
			row, _, found := k.table.Get(txn, nodeID.Query(strconv.Itoa(id)))
			value, has := held[name]
			if !found {
				if has {
					odd = append(odd, name+" is left: "+k.loop.Explain(w.Context(), strconv.Itoa(id)).Why)
				}
				continue
			}
			s, _ := k.loop.Status(txn, row)
			switch on := onOf(k.name, id); {
			case applied[on]:
				if k.name == "role" {
					applied[row.ID] = true
				}
				if s.Kind != reconciler.StatusKindDone || value != row.Value || !has {
					odd = append(odd, fmt.Sprintf("%s is %s: %s", name, s, k.loop.Explain(w.Context(), row.ID).Why))
				}
			case s.Kind != reconciler.StatusKindBlocked && s.Kind != reconciler.StatusKindDone:
				odd = append(odd, fmt.Sprintf("%s is %s", name, s))
			}
		}
	}
	return strings.Join(odd, "; ")
}
