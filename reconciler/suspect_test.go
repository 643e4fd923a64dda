// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

var errLost = errors.New("no such object")

// dependents are the operations of parts, which need the object 1 of another loop: in its table, and in its target.
type dependents struct {
	e *env
	w *world

	mu sync.Mutex
	// loop is the one that is suspected. refuses: the target refuses parts although it has the object. both: the object 2 is
	// suspected, too. ends is how long a call goes on when it has suspected the object.
	loop    *reconciler.Loop[*object]
	refuses bool
	both    bool
	ends    time.Duration
	calls   int
}

func (d *dependents) Update(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, _ *part) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	needed, err := reconciler.NeedApplied(ctx, txn, d.e.loop, idIndex.Query(1), "object 1")
	if err != nil {
		return err
	}
	if _, has := d.w.holds()[1]; !has || d.refuses {
		err := reconciler.Suspect(ctx, d.loop, needed, errLost)
		if d.both {
			err = reconciler.Suspect(ctx, d.loop, &object{ID: 2}, err)
		}
		time.Sleep(d.ends)
		return err
	}
	return nil
}

func (*dependents) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *part) error {
	return nil
}

// take returns the number of calls since the last one.
func (d *dependents) take() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, d.calls = d.calls, 0
	return n
}

func (d *dependents) refusing(refuses bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuses = refuses
}

// suspecting runs a test with a loop and another one whose objects need object 1 of it; gets: its target is a Getter. insert
// writes a row of the other one.
func suspecting(t *testing.T, gets bool, test func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(id uint64))) {
	rows := map[uint64]int{1: 1, 2: 1}
	var g *getting
	resyncing(t, begin{target: rows, rows: rows, change: func(_ *env, w *world, cfg *reconciler.Config[*object]) {
		if g = (&getting{world: w}); gets {
			cfg.Lister = g
		}
	}}, func(e *env, w *world, _ func()) {
		parts, err := statedb.NewTable(e.db, "parts", partIndex)
		require.NoError(e, err)
		d := &dependents{e: e, w: w, loop: e.loop}
		other, err := reconciler.New(reconciler.Config[*part]{
			DB: e.db, Table: parts, Operations: d, Options: exact(reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 })),
		})
		require.NoError(e, err)
		defer reconcilertest.Go(e, other.Run)()
		e.pass(time.Second)
		w.take()
		test(e, g, d, other, func(id uint64) {
			wtxn := e.db.WriteTxn(parts)
			_, _, err := parts.Insert(wtxn, &part{ID: id})
			require.NoError(e, err)
			wtxn.Commit()
		})
	})
}

// is requires the status of a part.
func (d *dependents) is(other *reconciler.Loop[*part], id uint64, kind reconciler.StatusKind, text string) {
	d.e.Helper()
	s, _ := other.Status(d.e.db.ReadTxn(), &part{ID: id})
	require.Equal(d.e, kind, s.Kind, "%s", s)
	require.Contains(d.e, s.GetError(), text)
}

func TestSuspectedObjectIsAppliedAgainAndItsDependentsFollow(t *testing.T) {
	for _, gets := range []bool{true, false} {
		suspecting(t, gets, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
			insert(1)
			e.pass(time.Second)
			d.is(other, 1, reconciler.StatusKindDone, "")
			d.take()
			lists := g.listed()
			g.drift(1, -1)
			insert(2)
			insert(3)
			e.pass(50 * time.Millisecond)
			require.Equal(e, []string{"update(1)"}, g.changes())
			d.is(other, 2, reconciler.StatusKindDone, "")
			d.is(other, 3, reconciler.StatusKindDone, "")
			require.LessOrEqual(e, d.take(), 4, "no timer, and no call for nothing")
			require.Equal(e, !gets, g.listed() > lists, "a resync is for those who cannot look at one object")
		})
	}
}

// It was not the reason: the failure is one, and backs off.
func TestSuspectedObjectThatIsRightIsNoReason(t *testing.T) {
	for _, gets := range []bool{true, false} {
		suspecting(t, gets, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
			d.refusing(true)
			insert(2)
			e.pass(50 * time.Millisecond)
			d.is(other, 2, reconciler.StatusKindError, "no such object")
			require.Equal(e, 2, d.take())
			e.pass(10 * time.Minute)
			require.LessOrEqual(e, d.take(), 44)
			require.Empty(e, g.changes())
			d.refusing(false)
			e.pass(2 * time.Minute)
			d.is(other, 2, reconciler.StatusKindDone, "")
		})
	}
}

// A need that is not applied is waited for.
func TestSuspectedObjectThatFailsIsWaitedFor(t *testing.T) {
	suspecting(t, true, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
		g.failing("down")
		g.drift(1, -1)
		insert(2)
		e.pass(10 * time.Second)
		d.is(other, 2, reconciler.StatusKindBlocked, "is not applied") // as NeedApplied or Suspect says it
		require.Contains(e, other.Explain(e.Context(), "2").Why, "down")
		require.LessOrEqual(e, d.take(), 3)
		g.failing("")
		e.pass(time.Minute)
		d.is(other, 2, reconciler.StatusKindDone, "")
	})
}

// It may have found what was there before.
func TestLookThatBeganBeforeASuspicionDoesNotEndIt(t *testing.T) {
	suspecting(t, true, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
		g.looksLate()
		e.quietly(1)()
		e.pass(50 * time.Millisecond)
		g.drift(1, -1)
		insert(2)
		e.pass(10 * time.Millisecond)
		d.is(other, 2, reconciler.StatusKindBlocked, "no such object: looking at 1")
		e.pass(time.Second)
		d.is(other, 2, reconciler.StatusKindDone, "")
		require.Equal(e, 2, d.take())
		require.Zero(e, other.Figures().Updates.Failed)
	})
}

// It is not looked for any longer, but waited for, with its error.
func TestDependentsAreToldWhenTheSuspectedObjectFails(t *testing.T) {
	for _, gets := range []bool{true, false} {
		suspecting(t, gets, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
			d.ends = 100 * time.Millisecond
			g.deciding(func(call) error { return reconciler.TerminalError(errors.New("bad")) })
			g.drift(1, -1)
			insert(2)
			e.pass(10 * time.Millisecond)
			e.put(9, 1)
			e.pass(50 * time.Millisecond)
			require.Equal(e, reconciler.StatusKindError, e.told(1).Kind)
			e.pass(time.Second)
			d.is(other, 2, reconciler.StatusKindBlocked, "is not applied")
			require.Contains(e, other.Explain(e.Context(), "2").Why, "bad")
			g.deciding(nil)
			_, err := e.loop.Retry(e.Context(), "1")
			require.NoError(e, err)
			e.pass(time.Second)
			d.is(other, 2, reconciler.StatusKindDone, "")
		})
	}
}

func TestSuspectedObjectThatIsPausedIsAppliedWhenItIsResumed(t *testing.T) {
	for _, gets := range []bool{true, false} {
		suspecting(t, gets, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
			require.NoError(e, e.loop.PauseOnly("1"))
			e.pass(time.Second)
			g.drift(1, -1)
			insert(2)
			e.pass(10 * time.Second)
			d.is(other, 2, reconciler.StatusKindBlocked, "no such object: looking at 1")
			require.Contains(e, other.Explain(e.Context(), "2").Why, "1 (objects) is paused")
			require.Empty(e, g.changes())
			e.loop.Resume()
			e.pass(50 * time.Millisecond)
			d.is(other, 2, reconciler.StatusKindDone, "")
			require.Equal(e, 2, d.take())
		})
	}
}

func TestSuspicionDoesNotSayPausedAfterThePause(t *testing.T) {
	suspecting(t, true, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
		require.NoError(e, e.loop.PauseOnly("1"))
		e.pass(time.Second)
		g.drift(1, -1)
		insert(2)
		e.pass(time.Second)
		require.Contains(e, other.Explain(e.Context(), "2").Why, "is paused")
		g.looksLate()
		e.loop.Resume()
		e.pass(10 * time.Millisecond)
		why := other.Explain(e.Context(), "2").Why
		require.Contains(e, why, "looking at 1")
		require.NotContains(e, why, "is paused")
		e.pass(time.Second)
		d.is(other, 2, reconciler.StatusKindDone, "")
	})
}

// The program writes the row as Done while it is to be looked at, and so ends what the loop knows of it.
func TestSuspicionIsLookedAtAgainIfItsLookDoesNotCome(t *testing.T) {
	suspecting(t, true, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
		if e.loop.Config().Clone == nil {
			return
		}
		g.deciding(func(call) error { return reconciler.TerminalError(errors.New("bad")) })
		e.put(2, 1)
		e.pass(time.Second)
		g.deciding(nil)
		g.drift(1, -1)
		e.loop.Pause()
		e.pass(time.Second)
		row := *e.get(1)
		row.Status = reconciler.StatusDone()
		e.Insert(&row)
		insert(2)
		e.pass(time.Second)
		d.is(other, 2, reconciler.StatusKindBlocked, "looking at 1")
		e.loop.PauseObjects(func(o *object) bool { return o.ID == 1 })
		e.pass(time.Second)
		d.is(other, 2, reconciler.StatusKindBlocked, "looking at 1")
		e.loop.Resume()
		e.pass(time.Second)
		d.is(other, 2, reconciler.StatusKindDone, "")
		require.Equal(e, 2, g.holds()[1])
	})
}

// One is enough for those that come while it runs, if it finds the object missing, and for what follows until it is repaired.
func TestSuspicionsWithoutAGetterShareAResync(t *testing.T) {
	for _, both := range []bool{false, true} {
		suspecting(t, false, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
			d.mu.Lock()
			d.both = both
			d.mu.Unlock()
			// A part that runs while the object is applied may find it missing, and suspect it after that.
			limiter := rate.NewLimiter(rate.Every(time.Second), 1)
			limiter.Allow()
			require.NoError(e, e.loop.Reconfigure(func(s *reconciler.Settings) { s.RefreshLimiter = limiter }))
			g.set(nil, func(context.Context) { time.Sleep(100 * time.Millisecond) })
			lists := g.listed()
			g.drift(1, -1)
			insert(2)
			e.pass(50 * time.Millisecond)
			if !both {
				insert(3)
			}
			e.pass(10 * time.Second)
			d.is(other, 2, reconciler.StatusKindDone, "")
			require.Equal(e, []string{"update(1)"}, g.changes())
			require.Equal(e, lists+1, g.listed())
			// It may have been listed before it was removed.
			limiter.Allow()
			e.loop.Resync()
			e.pass(50 * time.Millisecond)
			g.drift(1, -1)
			insert(4)
			e.pass(10 * time.Second)
			d.is(other, 4, reconciler.StatusKindDone, "")
			require.Equal(e, []string{"update(1)"}, g.changes())
			require.Equal(e, lists+3, g.listed())
		})
	}
}

// Somebody removes the object again and again: its loop backs off, and so do those who need it.
func TestSuspectInAFight(t *testing.T) {
	suspecting(t, true, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
		end := e.another(g, 1, -1, 50*time.Millisecond, func() {})
		stop := make(chan struct{})
		stopped := sync.OnceFunc(func() { close(stop) })
		e.Cleanup(stopped)
		go func() {
			for id := uint64(2); ; id++ {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Second):
					insert(id)
				}
			}
		}()
		e.pass(time.Minute)
		d.take()
		e.pass(3 * time.Minute)
		require.LessOrEqual(e, len(g.changes()), 36)
		require.LessOrEqual(e, d.take(), 180, "18 parts")
		stopped()
		end()
		e.pass(3 * time.Minute)
		rest, err := other.WaitAll(e.Context(), reconciler.Attempted)
		require.NoError(e, err)
		require.Empty(e, rest.Keys)
		e.calmly()
	})
}

// There is nothing to look at, or no loop that looks.
func TestSuspectWithoutARowIsTheFailure(t *testing.T) {
	suspecting(t, true, func(e *env, g *getting, d *dependents, other *reconciler.Loop[*part], insert func(uint64)) {
		require.NoError(e, reconciler.Suspect(e.Context(), e.loop, &object{ID: 1}, nil))
		require.Equal(e, errLost, reconciler.Suspect(e.Context(), e.loop, &object{ID: 77}, errLost))
		err := reconciler.Suspect(e.Context(), e.loop, &object{ID: 1}, errLost)
		require.True(e, reconciler.IsBlocked(err))
		require.ErrorIs(e, err, errLost)
		require.ErrorContains(e, reconciler.Suspect[*object](e.Context(), nil, &object{ID: 1}, errLost), "pass the loop")
		// Its row goes while it is looked at.
		g.looksLate()
		g.drift(1, -1)
		insert(2)
		e.pass(10 * time.Millisecond)
		d.is(other, 2, reconciler.StatusKindBlocked, "no such object: looking at 1")
		e.remove(1)
		e.pass(time.Second)
		d.is(other, 2, reconciler.StatusKindBlocked, "object 1 is missing")
		e.stop()
		e.stop = func() {}
		require.Equal(e, errLost, reconciler.Suspect(e.Context(), e.loop, &object{ID: 2}, errLost))
	})
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		require.Equal(e, errLost, reconciler.Suspect(e.Context(), e.loop, &object{ID: 1}, errLost))
	}, nil)
}

// behind is a target from which somebody removes object 2 when it was applied once. Object 1 takes long, and 3 needs 2.
type behind struct {
	mu             sync.Mutex
	applied, calls int // of objects 2 and 3
}

func (b *behind) Update(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, p *part) error {
	switch p.ID {
	case 1:
		time.Sleep(time.Second)
	case 2:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.applied++
	case 3:
		needed, err := reconciler.NeedApplied(ctx, txn, nil, partIndex.Query(2), "object 2")
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.calls++; b.applied < 2 && b.calls < 100 {
			return reconciler.Suspect(ctx, nil, needed, errLost)
		}
	}
	return nil
}

func (*behind) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *part) error { return nil }

func (b *behind) List(_ context.Context, _ statedb.ReadTxn, yield func(*part) bool) error {
	b.mu.Lock()
	applied := b.applied
	b.mu.Unlock()
	if applied > 0 {
		_ = yield(&part{ID: 1}) && yield(&part{ID: 3}) && applied > 1 && yield(&part{ID: 2})
	}
	return nil
}

// An object that was applied shows as Done in the table of outcomes when those before it were attempted.
func TestAnObjectThatDoesNotShowAsAppliedYetIsNotSuspectedInCircles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		parts, err := statedb.NewTable(db, "parts", partIndex)
		require.NoError(t, err)
		b := &behind{}
		loop, err := reconciler.New(reconciler.Config[*part]{
			DB: db, Table: parts, Operations: b, Lister: b, Options: exact(reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 })),
		})
		require.NoError(t, err)
		defer reconcilertest.Go(t, loop.Run)()
		time.Sleep(time.Minute)
		synctest.Wait()
		wtxn := db.WriteTxn(parts)
		for id := range uint64(3) {
			_, _, err := parts.Insert(wtxn, &part{ID: id + 1})
			require.NoError(t, err)
		}
		wtxn.Commit()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		rest, err := loop.WaitAll(t.Context(), reconciler.Applied)
		require.NoError(t, err)
		require.Empty(t, rest.Keys)
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Equal(t, 2, b.applied)
		require.Less(t, b.calls, 5)
	})
}
