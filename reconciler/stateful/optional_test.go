// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/stateful"
)

// observing is a server whose state can be read.
type observing struct{ *server }

func (o observing) ObserveState(_ context.Context, z *zone) ([]string, error) {
	if z.Domain == "down" {
		return nil, errors.New("no answer")
	}
	return o.has(z.Name), nil
}

var _ stateful.StateObserver[*zone, []string] = observing{}

func TestTheObservedStateIsCompared(t *testing.T) {
	s := observing{newServer()}
	inBubble(t, s, func(e *env) {
		s.set("web", "a", true)
		e.change("web", "a", "b")
		require.Equal(e, []changes{adds("b")}, s.take(), "an observed item is not added again")

		s.set("web", "a", false)
		s.set("web", "stray", true)
		e.refresh("web")
		require.Equal(e, []string{"a", "b"}, s.has("web"))
		require.Equal(e, []changes{{ItemsToAdd: []string{"a"}, ItemsToRemove: []string{"stray"}}}, s.take())
		e.refresh("web")
		require.Empty(e, s.take())

		s.set("web", "a", false)
		e.change("web", "b")
		require.Equal(e, []changes{removes("a")}, s.take(), "it was applied, though it is not observed")

		e.edit("web", func(z *zone) { z.Domain, z.Records = "down", []string{"c"} })
		e.expect("web", "Error: observe the state: no answer")
		require.Empty(e, s.take())
		e.edit("web", func(z *zone) { z.Domain = "" })
		e.Pass(time.Second)
		e.expect("web", "Done")

		s.set("web", "stray", true)
		e.remove("web")
		require.Empty(e, s.has("web"))
	})
}

// patrolling is an observing server that reconciles every minute, but not zones without a domain.
type patrolling struct {
	observing
	calls *atomic.Int32
}

func (p patrolling) RequeueAfter(z *zone) time.Duration {
	if p.calls.Add(1) > 10 {
		return time.Hour // a loop without end is no good way to fail
	}
	return time.Duration(len(z.Domain)) * time.Minute
}

var _ stateful.Requeuer[*zone] = patrolling{}

func TestARequeuerFindsDriftPeriodically(t *testing.T) {
	s := patrolling{observing{newServer()}, &atomic.Int32{}}
	inBubble(t, s, func(e *env) {
		move(e, "o", "a")
		e.expect("web", "Done")
		e.annotated("web", `["a"]`)
		s.set("web", "a", false)
		e.Pass(59 * time.Second)
		require.Empty(e, s.has("web"))
		e.Pass(time.Second)
		require.Equal(e, []string{"a"}, s.has("web"))

		move(e, "", "a")
		require.EqualValues(e, 3, s.calls.Load())
		e.Pass(24 * time.Hour)
		require.EqualValues(e, 3, s.calls.Load(), "zero means until the resource changes")
	})
}

// pruning removes the names that no row has.
type pruning struct{ *server }

func (p pruning) Prune(_ context.Context, _ statedb.ReadTxn, zones iter.Seq2[*zone, statedb.Revision]) error {
	wanted := map[string]bool{}
	for z := range zones {
		wanted[z.Name] = true
	}
	p.locked(func() {
		maps.DeleteFunc(p.records, func(name string, _ map[string]bool) bool { return !wanted[name] })
	})
	return nil
}

func TestOnlyAReconcilerWithPruneIsPruned(t *testing.T) {
	s := newServer()
	s.set("old", "a", true)
	inBubble(t, s, func(e *env) {
		for _, round := range e.Loop.Rounds() {
			require.Nil(e, round.Prune)
		}
	})
	inBubble(t, pruning{s}, func(e *env) { require.Empty(e, s.has("old")) })
}

// site is a state with a context: records under a name that may change.
type site struct {
	Name    string   `json:"name"`
	Records []string `json:"records"`
	Weight  float64  `json:"weight,omitzero"`
}

type siteChanges = stateful.StateChangeOperations[site, string]

// sites implements the comparison itself, and cleans up a name that is no longer used.
type sites struct {
	*server
	renamed []site
}

func (s *sites) ExtractCurrentState(z *zone) (site, error) {
	current := site{Name: z.Domain, Records: z.Records}
	if slices.Contains(z.Records, "heavy") {
		current.Weight = math.Inf(1)
	}
	return current, nil
}

func (s *sites) CompareStates(previous, current site) (siteChanges, error) {
	if slices.Contains(current.Records, "odd") {
		return siteChanges{}, errors.New("odd records")
	}
	if previous.Name != "" && previous.Name != current.Name {
		return siteChanges{ItemsToAdd: current.Records, ContextChanged: true, PreviousContext: previous}, nil
	}
	diff, err := stateful.SetDiff[string]{}.CompareStates(previous.Records, current.Records)
	return siteChanges{ItemsToAdd: diff.ItemsToAdd, ItemsToRemove: diff.ItemsToRemove}, err
}

func (s *sites) ApplyOperations(ctx context.Context, z *zone, ops siteChanges) error {
	items := changes{ItemsToAdd: ops.ItemsToAdd, ItemsToRemove: ops.ItemsToRemove}
	if err := s.server.ApplyOperations(ctx, named(z.Domain), items); err != nil || !ops.ContextChanged {
		return err
	}
	s.locked(func() { s.renamed = append(s.renamed, ops.PreviousContext) })
	for _, record := range ops.PreviousContext.Records {
		s.set(ops.PreviousContext.Name, record, false)
	}
	return nil
}

func sitesInBubble(t *testing.T, test func(e *env, s *sites)) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEnv(t), &sites{server: newServer()}
		start(e, e.config(), s)
		test(e, s)
	})
}

func move(e *env, to string, records ...string) {
	e.edit("web", func(z *zone) { z.Domain, z.Records = to, records })
}

func TestEveryTriedContextIsCleanedUp(t *testing.T) {
	sitesInBubble(t, func(e *env, s *sites) {
		move(e, "old", "a")
		s.failOn("b")
		move(e, "middle", "a", "b")
		require.Equal(e, []string{"a"}, s.has("old"))
		require.Equal(e, []string{"a"}, s.has("middle"))
		s.before(nil)
		move(e, "new", "a")
		e.Pass(time.Minute)
		require.Empty(e, s.has("old"))
		require.Empty(e, s.has("middle"))
		require.Equal(e, []string{"a"}, s.has("new"))
		e.expect("web", "Done")
	})
}

func TestAStateThatCannotBeComparedOrEncodedIsNotApplied(t *testing.T) {
	sitesInBubble(t, func(e *env, s *sites) {
		move(e, "old", "a", "odd")
		e.expect("web", "Error: compare the states: odd records")
		move(e, "old", "a", "heavy")
		e.Pass(time.Second)
		e.expect("web", `Error: annotation "example.org/records": json: unsupported value: +Inf`)
		require.Empty(e, s.has("old"))
		rounds := len(e.Loop.Rounds())
		e.Pass(time.Hour)
		require.Len(e, e.Loop.Rounds(), rounds, "a state that cannot be encoded is a terminal error")
	})
}
