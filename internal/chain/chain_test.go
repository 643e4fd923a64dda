// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package chain_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/chain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a part whose answers are data.
type fake struct {
	reads, output string
	// next are the rows that follow from a key, held is why a key is not done, and since when the others are.
	next  map[string][]string
	held  map[string]string
	since time.Time
	// certain is when it is certain of its target, but for doubt, if that is set. silent is why it answers nothing. asked has
	// the keys that it was asked for.
	certain time.Time
	doubt   func() error
	silent  string
	asked   []string
	// await and settle are called by waits.
	await  func(ctx context.Context, row chain.Row) error
	settle func() error
}

func (f *fake) Controller() any                               { return f }
func (f *fake) Tables() []string                              { return []string{f.reads} }
func (f *fake) Output() string                                { return f.output }
func (f *fake) DB() *statedb.DB                               { return nil }
func (f *fake) Settle(context.Context) error                  { return f.settle() }
func (f *fake) Find(string, string) (chain.Row, string, bool) { return chain.Row{}, "", false }

func (f *fake) Uncertain(context.Context) error {
	switch {
	case time.Now().Before(f.certain):
		return errors.New("not listed")
	case f.doubt != nil:
		return f.doubt()
	}
	return nil
}

func (f *fake) Follow(_ context.Context, row chain.Row) (s chain.Step) {
	f.asked = append(f.asked, row.Key)
	if f.silent != "" {
		return chain.Step{Held: []chain.Held{{Table: row.Table, Why: f.silent}}}
	}
	if why, is := f.held[row.Key]; is {
		s.Held = []chain.Held{{Table: row.Table, Object: row.Key, Why: why}}
	}
	return f.step(row, s)
}

func (f *fake) step(row chain.Row, s chain.Step) chain.Step {
	for _, key := range f.next[row.Key] {
		s.Next = append(s.Next, chain.Row{Table: f.output, Key: key, Revision: row.Revision + 10})
	}
	s.Since = f.since
	return s
}

func (f *fake) Await(ctx context.Context, row chain.Row) (chain.Step, error) {
	err := f.await(ctx, row)
	return f.step(row, chain.Step{}), err
}

// world is a chain: apps, of which ports are derived, and of them rules, which a loop works on.
type world struct {
	chain.Parts
	ports, rules, loop *fake
}

func newWorld() *world {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{
		ports: &fake{reads: "apps", output: "ports", next: map[string][]string{"web": {"80", "443"}, "db": {"80"}}, since: at},
		rules: &fake{reads: "ports", output: "rules", next: map[string][]string{"80": {"in", "out"}}, since: at.Add(time.Second)},
		loop:  &fake{reads: "rules", held: map[string]string{}, since: at.Add(2 * time.Second)},
	}
	for _, part := range []*fake{w.loop, w.rules, w.ports} {
		w.Join(part)
	}
	return w
}

// whys are the reasons of a verdict, with the objects.
func whys(v chain.Verdict) (all []string) {
	for _, held := range v.Held {
		all = append(all, held.Object+" of "+held.Table+": "+held.Why)
	}
	return all
}

func TestRowIsInForceIfAllIsDoneThatFollowsFromIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		row    chain.Row
		want   []string
	}{
		"all is done":       {func(*world) {}, chain.Row{Table: "apps", Key: "web"}, nil},
		"nothing follows":   {func(w *world) { w.loop.held["in"] = "fails" }, chain.Row{Table: "apps", Key: "none"}, nil},
		"another row fails": {func(w *world) { w.loop.held["other"] = "fails" }, chain.Row{Table: "apps", Key: "web"}, nil},
		"the end of the chain fails": {func(w *world) { w.loop.held["out"] = "fails" },
			chain.Row{Table: "apps", Key: "web"}, []string{"out of rules: fails"}},
		"in the middle": {func(w *world) { w.loop.held["out"] = "fails" }, chain.Row{Table: "ports", Key: "443"}, nil},
		"a derivation has not processed it": {func(w *world) { w.rules.held = map[string]string{"443": "unseen"} },
			chain.Row{Table: "apps", Key: "web"}, []string{"443 of ports: unseen"}},
		"the target is uncertain": {func(w *world) { w.loop.certain = time.Now().Add(time.Hour) },
			chain.Row{Table: "apps", Key: "none"}, []string{" of rules: not listed"}},
		"the loop has stopped": {func(w *world) { w.Leave(w.loop) }, chain.Row{Table: "apps", Key: "none"},
			[]string{" of rules: the reconciler has stopped"}},
		"the loop has stopped, and a derivation goes on": {func(w *world) {
			w.Leave(w.loop)
			w.Join(&fake{reads: "rules", output: "packets"})
			w.Join(&fake{reads: "packets"})
		}, chain.Row{Table: "apps", Key: "none"}, []string{" of rules: the reconciler has stopped"}},
		"a derivation does not run": {func(w *world) { w.Leave(w.rules) }, chain.Row{Table: "apps", Key: "none"},
			[]string{" of ports: no reconciler and no derivation of the registry works on this table"}},
		"the loop is busy": {func(w *world) { w.loop.silent = "busy" }, chain.Row{Table: "apps", Key: "web"}, []string{" of rules: busy"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			v := w.Walk(t.Context(), c.row)
			require.Equal(t, c.want, whys(v))
			require.Equal(t, len(c.want) > 0, v.Since.IsZero())
		})
	}
}

func TestRowIsInForceSinceItsLastPart(t *testing.T) {
	w := newWorld()
	require.Equal(t, w.loop.since, w.Walk(t.Context(), chain.Row{Table: "apps", Key: "web"}).Since)
	require.Equal(t, w.ports.since, w.Walk(t.Context(), chain.Row{Table: "apps", Key: "none"}).Since)
	w.loop.since = time.Time{}
	require.Zero(t, w.Walk(t.Context(), chain.Row{Table: "apps", Key: "web"}).Since, "of one part it is not known")
}

func TestVerdictNamesTenAndCountsTheOthers(t *testing.T) {
	w := newWorld()
	for _, key := range "abcdefghijklm" {
		w.rules.next["443"] = append(w.rules.next["443"], string(key))
		w.loop.held[string(key)] = "fails"
	}
	v := w.Walk(t.Context(), chain.Row{Table: "apps", Key: "web"})
	require.Len(t, v.Held, chain.MaxHeld)
	require.Equal(t, 3, v.More)
}

func TestPartThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	w := newWorld()
	w.loop.silent = "busy"
	w.Walk(t.Context(), chain.Row{Table: "apps", Key: "web"})
	require.Equal(t, []string{"in"}, w.loop.asked)
}

// A loop that several derivations lead to is the last.
func TestSettleWaitsForAllPartsBelowATable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		short := &fake{reads: "apps", output: "rules"}
		w.Join(short)
		var settled []string
		for name, part := range map[string]*fake{"ports": w.ports, "rules": w.rules, "short": short, "loop": w.loop} {
			part.settle = func() error { settled = append(settled, name); return nil }
		}
		began := time.Now()
		w.loop.certain = began.Add(time.Second)
		require.NoError(t, w.Settle(t.Context(), "apps"))
		require.Equal(t, []string{"ports", "rules", "loop", "short", "loop"}, settled)
		require.GreaterOrEqual(t, time.Since(began), time.Second)
		ended := errors.New("ended")
		w.rules.settle = func() error { return ended }
		settled = nil
		require.ErrorIs(t, w.Settle(t.Context(), "apps"), ended)
		require.Equal(t, []string{"ports"}, settled)
	})
}

// A row that is rewritten faster than its operation takes is never done at the moment of a look.
func TestWaitEndsAlthoughItsObjectsChangeAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.loop.held = map[string]string{"in": "in flight", "out": "in flight"}
		var awaited []string
		w.loop.await = func(ctx context.Context, row chain.Row) error {
			time.Sleep(time.Second)
			awaited = append(awaited, row.Key)
			return ctx.Err()
		}
		began := time.Now()
		v, err := w.Wait(t.Context(), chain.Row{Table: "apps", Key: "web"})
		require.NoError(t, err)
		require.Empty(t, v.Held)
		require.Equal(t, []string{"in", "out"}, awaited)
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

// A row leads to a rule through two derivations, one of which is behind: that the rule was applied in between says nothing
// about what comes of the other one.
func TestWaitForARuleOfTwoDerivationsWaitsForBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.Leave(w.ports)
		w.Join(&fake{reads: "apps", output: "rules", next: map[string][]string{"web": {"in"}}, since: w.ports.since})
		w.Join(w.ports) // it comes after the other
		w.ports.held = map[string]string{"web": "unseen"}
		w.ports.await = func(context.Context, chain.Row) error {
			time.Sleep(time.Second)
			return nil
		}
		w.loop.held["in"] = "in flight"
		applied := map[string]statedb.Revision{}
		w.loop.await = func(_ context.Context, row chain.Row) error {
			time.Sleep(100 * time.Millisecond)
			applied[row.Key] = row.Revision
			return nil
		}
		_, err := w.Wait(t.Context(), chain.Row{Table: "apps", Key: "web"})
		require.NoError(t, err)
		require.Equal(t, map[string]statedb.Revision{"in": 20}, applied)
	})
}

func TestWaitEndsWithItsContextAndWithAPartThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		row := chain.Row{Table: "apps", Key: "web"}
		w.loop.certain = time.Now().Add(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v, err := w.Wait(ctx, row)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []string{" of rules: not listed"}, whys(v))

		time.Sleep(time.Hour)
		w.loop.held["in"] = "fails"
		ended := errors.New("ended")
		w.loop.await = func(context.Context, chain.Row) error { return ended }
		v, err = w.Wait(t.Context(), row)
		require.ErrorIs(t, err, ended)
		require.Equal(t, []string{"in of rules: fails"}, whys(v))
	})
}

// A loop does not run again. What has not run yet may begin.
// What has stopped is a part no more, and the others have done their share.
func TestWaitForALoopThatStopsIsNoYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.Join(&fake{reads: "rules", since: time.Now()})
		w.loop.held["in"] = "fails"
		w.loop.await = func(context.Context, chain.Row) error {
			w.Leave(w.loop)
			return chain.ErrStopped
		}
		v, err := w.Wait(t.Context(), chain.Row{Table: "apps", Key: "web"})
		require.ErrorIs(t, err, chain.ErrStopped)
		require.Equal(t, []string{" of apps: the reconciler has stopped"}, whys(v))
	})
}

// Loops that are in operations most of the time answer now and then.
func TestWaitNeedsNoMomentInWhichAllLoopsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		asked := 0
		inTurn := func(turn int) func() error {
			return func() error {
				if asked++; asked%2 == turn {
					return errors.New("busy")
				}
				return nil
			}
		}
		other := &fake{reads: "rules", doubt: inTurn(0), since: time.Now()}
		w.loop.doubt = inTurn(0)
		w.Join(other)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := w.Wait(ctx, chain.Row{Table: "apps", Key: "web"})
		require.NoError(t, err)
	})
}

func TestLoopThatHasStoppedEndsAWaitThoughItHasNotLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		stops := time.Now().Add(time.Minute)
		w.loop.doubt = func() error {
			if time.Now().Before(stops) {
				return errors.New("not listed")
			}
			return chain.ErrStopped
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		v, err := w.Wait(ctx, chain.Row{Table: "apps", Key: "none"})
		require.ErrorIs(t, err, chain.ErrStopped)
		require.Equal(t, []string{" of rules: the reconciler has stopped"}, whys(v))
		require.ErrorIs(t, w.Settle(ctx, "apps"), chain.ErrStopped)
	})
}

func TestWalkEndsWithItsContext(t *testing.T) {
	w := newWorld()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, []string{" of apps: context canceled"}, whys(w.Walk(ctx, chain.Row{Table: "apps", Key: "web"})))
	require.Empty(t, w.ports.asked)
}

func TestWaitEndsWhenTheLoopHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		row := chain.Row{Table: "apps", Key: "none"}
		began := time.Now()
		w.loop.certain = began.Add(time.Hour)
		time.AfterFunc(time.Minute, func() { w.Leave(w.loop) })
		v, err := w.Wait(t.Context(), row)
		require.ErrorIs(t, err, chain.ErrStopped)
		require.Equal(t, []string{" of rules: the reconciler has stopped"}, whys(v))
		require.InDelta(t, 60, time.Since(began).Seconds(), 0.2)

		_, err = w.Wait(t.Context(), row)
		require.ErrorIs(t, err, chain.ErrStopped)
		require.ErrorIs(t, w.Settle(t.Context(), "apps"), chain.ErrStopped)

		time.Sleep(time.Hour)
		w.Join(w.loop) // another one
		w.Leave(w.rules)
		time.AfterFunc(time.Minute, func() { w.Join(w.rules) })
		_, err = w.Wait(t.Context(), row)
		require.NoError(t, err)
	})
}
