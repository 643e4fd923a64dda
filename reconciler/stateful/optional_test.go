// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
	"iter"
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
type observing struct {
	*server
	// down makes ObserveState fail.
	down atomic.Bool
}

func (o *observing) ObserveState(_ context.Context, z *zone) ([]string, error) {
	if o.down.Load() {
		return nil, errors.New("no answer")
	}
	return o.has(z.Name), nil
}

var _ stateful.StateObserver[*zone, []string] = (*observing)(nil)

func TestDriftIsRepairedAtARefresh(t *testing.T) {
	s := &observing{server: newServer()}
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		s.take()
		s.set("web", "a", false)
		s.set("web", "stray", true)
		e.refresh("web")
		require.Equal(e, []string{"a", "b"}, s.has("web"))
		require.Equal(e, []changes{{ItemsToAdd: []string{"a"}, ItemsToRemove: []string{"stray"}}}, s.take())

		e.refresh("web")
		require.Empty(e, s.take())
	})
}

func TestObservedItemsAreNotAddedAgain(t *testing.T) {
	s := &observing{server: newServer()}
	inBubble(t, s, func(e *env) {
		s.set("web", "a", true)
		e.change("web", "a", "b")
		require.Equal(e, []changes{adds("b")}, s.take())
	})
}

func TestAppliedItemsAreRemovedThoughNotObserved(t *testing.T) {
	s := &observing{server: newServer()}
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		s.take()
		s.set("web", "a", false)
		e.change("web", "b")
		require.Equal(e, []changes{removes("a")}, s.take())
	})
}

func TestDeletingRemovesObservedItems(t *testing.T) {
	s := &observing{server: newServer()}
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		s.set("web", "stray", true)
		e.remove("web")
		require.Empty(e, s.has("web"))
	})
}

func TestAnObserverErrorFailsTheAttempt(t *testing.T) {
	s := &observing{server: newServer()}
	s.down.Store(true)
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		e.expect("web", "Error: observe the state: no answer")
		require.Empty(e, s.take())
		s.down.Store(false)
		pass(time.Second)
		e.expect("web", "Done")
	})
}

// polling is an observing server that reconciles every minute.
type polling struct{ observing }

func (*polling) RequeueAfter(*zone) time.Duration { return time.Minute }

var _ stateful.Requeuer[*zone] = (*polling)(nil)

func TestARequeuerFindsDriftPeriodically(t *testing.T) {
	s := &polling{observing{server: newServer()}}
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		e.expect("web", "Done")
		e.annotated("web", `["a"]`)
		s.set("web", "a", false)
		pass(59 * time.Second)
		require.Empty(e, s.has("web"))
		pass(time.Second)
		require.Equal(e, []string{"a"}, s.has("web"))
	})
}

// pruning removes the names that no row has.
type pruning struct{ *server }

func (p pruning) Prune(_ context.Context, _ statedb.ReadTxn, zones iter.Seq2[*zone, statedb.Revision]) error {
	var wanted []string
	for z := range zones {
		wanted = append(wanted, z.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.records {
		if !slices.Contains(wanted, name) {
			delete(p.records, name)
		}
	}
	return nil
}

func TestAReconcilerWithPruneIsPruned(t *testing.T) {
	s := newServer()
	s.set("old", "a", true)
	inBubble(t, pruning{s}, func(*env) {
		require.Empty(t, s.has("old"))
	})
}

func TestAReconcilerWithoutPruneIsNotPruned(t *testing.T) {
	s := newServer()
	s.set("old", "a", true)
	inBubble(t, s, func(e *env) {
		for _, round := range e.Loop.Journal() {
			require.Nil(e, round.Prune)
		}
	})
}

// refresh marks a row for a refresh, and waits for it.
func (e *env) refresh(name string) {
	n, err := e.Loop.Refresh(e.Context(), name)
	require.NoError(e, err)
	require.Equal(e, 1, n)
	synctest.Wait()
}

// site is a state with a context: records under a name that may change.
type site struct {
	Name    string   `json:"name"`
	Records []string `json:"records"`
}

type siteChanges = stateful.StateChangeOperations[site, string]

// sites implements the comparison itself, and cleans up a name that is no longer used.
type sites struct {
	*server
	renamed []site
}

func (s *sites) ExtractCurrentState(z *zone) (site, error) {
	return site{Name: z.Domain, Records: z.Records}, nil
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
	if ops.ContextChanged {
		s.mu.Lock()
		s.renamed = append(s.renamed, ops.PreviousContext)
		s.mu.Unlock()
		for _, record := range ops.PreviousContext.Records {
			s.set(ops.PreviousContext.Name, record, false)
		}
	}
	for _, record := range ops.ItemsToRemove {
		s.set(z.Domain, record, false)
	}
	for _, record := range ops.ItemsToAdd {
		if err := s.change(z.Domain, record, true); err != nil {
			return err
		}
	}
	return nil
}

func sitesInBubble(t *testing.T, test func(e *env, s *sites)) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEnv(t), &sites{server: newServer()}
		cfg, err := stateful.Configure(e.config(), s)
		require.NoError(t, err)
		e.Start(cfg)
		test(e, s)
	})
}

func move(e *env, to string, records ...string) {
	e.edit("web", func(z *zone) { z.Domain, z.Records = to, records })
}

func TestAChangedContextIsCleanedUp(t *testing.T) {
	sitesInBubble(t, func(e *env, s *sites) {
		move(e, "old", "a", "b")
		e.annotated("web", `{"name":"old","records":["a","b"]}`)
		move(e, "new", "a")
		s.mu.Lock()
		require.Equal(e, []site{{"old", []string{"a", "b"}}}, s.renamed)
		s.mu.Unlock()
		require.Empty(e, s.has("old"))
		require.Equal(e, []string{"a"}, s.has("new"))
		e.annotated("web", `{"name":"new","records":["a"]}`)
		e.remove("web")
		require.Empty(e, s.has("new"))
	})
}

func TestEveryTriedContextIsCleanedUp(t *testing.T) {
	sitesInBubble(t, func(e *env, s *sites) {
		move(e, "old", "a")
		heal := s.failOn("b")
		move(e, "middle", "a", "b")
		require.Equal(e, []string{"a"}, s.has("middle"))
		heal()
		move(e, "new", "a")
		pass(time.Minute)
		require.Empty(e, s.has("old"))
		require.Empty(e, s.has("middle"))
		require.Equal(e, []string{"a"}, s.has("new"))
		e.expect("web", "Done")
	})
}

func TestStatesThatCannotBeComparedFailTheAttempt(t *testing.T) {
	sitesInBubble(t, func(e *env, s *sites) {
		move(e, "old", "odd")
		e.expect("web", "Error: compare the states: odd records")
		require.Empty(e, s.has("old"))
	})
}
