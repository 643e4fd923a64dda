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
	// uncertain is why the target may have what no row shows, unsettled: not all is done.
	uncertain string
	unsettled bool
	// await is called by a wait.
	await func(ctx context.Context, row chain.Row) error
}

func (f *fake) Reads(table string) bool                       { return table == f.reads }
func (f *fake) Output() string                                { return f.output }
func (f *fake) DB() *statedb.DB                               { return nil }
func (f *fake) Uncertain(context.Context) string              { return f.uncertain }
func (f *fake) Settled(context.Context) bool                  { return !f.unsettled }
func (f *fake) Find(string, string) (chain.Row, string, bool) { return chain.Row{}, "", false }

func (f *fake) Follow(_ context.Context, row chain.Row) (s chain.Step) {
	if why, is := f.held[row.Key]; is {
		s.Held = []chain.Held{{Table: row.Table, Object: row.Key, Why: why}}
	}
	for _, key := range f.next[row.Key] {
		s.Next = append(s.Next, chain.Row{Table: f.output, Key: key, Revision: row.Revision + 10})
	}
	s.Since = f.since
	return s
}

func (f *fake) Await(ctx context.Context, row chain.Row) error { return f.await(ctx, row) }

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
		"the target is uncertain": {func(w *world) { w.loop.uncertain = "not listed" },
			chain.Row{Table: "apps", Key: "none"}, []string{" of rules: not listed"}},
		"nothing works on the last table": {func(w *world) { w.Leave(w.loop) }, chain.Row{Table: "apps", Key: "none"},
			[]string{" of rules: no reconciler and no derivation of the registry works on this table"}},
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

func TestSettledAsksAllPartsBelowATable(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"a loop":     func(w *world) { w.loop.unsettled = true },
		"uncertain":  func(w *world) { w.loop.uncertain = "not listed" },
		"derivation": func(w *world) { w.rules.unsettled = true },
		"none":       func(w *world) { w.Leave(w.loop) },
	} {
		w := newWorld()
		require.True(t, w.Settled(t.Context(), "apps"))
		change(w)
		require.False(t, w.Settled(t.Context(), "apps"), name)
	}
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

func TestWaitEndsWithItsContextAndWithAPartThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.loop.uncertain = "not listed"
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v, err := w.Wait(ctx, chain.Row{Table: "apps", Key: "web"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []string{" of rules: not listed"}, whys(v))

		w.loop.uncertain, w.loop.held["in"] = "", "fails"
		ended := errors.New("ended")
		w.loop.await = func(context.Context, chain.Row) error { return ended }
		_, err = w.Wait(t.Context(), chain.Row{Table: "apps", Key: "web"})
		require.ErrorIs(t, err, ended)
	})
}
