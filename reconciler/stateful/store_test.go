// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

// storing keeps its states in a map, which outlives the table.
type storing struct {
	*server
	states        map[string]string
	loads, stores int
	// fail is the error of all calls, and lost that of StoreState once it has stored.
	fail, lost error
	// flaky makes every tenth call fail.
	flaky bool
}

func newStoring() *storing { return &storing{server: newServer(), states: map[string]string{}} }

func (s *storing) LoadState(_ context.Context, z *zone) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	return s.states[z.Name], s.fault()
}

func (s *storing) StoreState(_ context.Context, z *zone, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores++
	if err := s.fault(); err != nil {
		return err
	}
	if s.states[z.Name] = text; text == "" {
		delete(s.states, z.Name)
	}
	return s.lost
}

func (s *storing) fault() error {
	if s.flaky && (s.loads+s.stores)%10 == 0 {
		return errors.New("the store is busy")
	}
	return s.fail
}

func (s *storing) failWith(err error) { s.locked(func() { s.fail = err }) }

var _ stateful.StateStore[*zone] = (*storing)(nil)

func TestStoredStatesOutliveTheTable(t *testing.T) {
	s := newStoring()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		e.change("mail", "a")
		e.change("gone", "a")
		e.remove("gone")
		e.change("none", "a")
		require.Equal(e, map[string]string{"web": `["a","b"]`, "mail": `["a"]`, "none": `["a"]`}, s.states)
		require.Equal(e, 5, s.stores)
	})
	s.take()
	inBubble(t, s, func(e *env) {
		e.change("web", "b")
		require.Equal(e, []changes{removes("a")}, s.take())
		e.change("mail", "a")
		require.Empty(e, s.take(), "the target has it")
		e.annotated("mail", `["a"]`)
		e.change("gone", "a")
		require.Equal(e, []changes{adds("a")}, s.take())

		loads := s.loads
		e.change("web", "c")
		e.change("web", "c", "d")
		require.Equal(e, loads, s.loads, "states in memory are not loaded again")
	})
	inBubble(t, s, func(e *env) {
		z := named("none").SetStatus(reconciler.StatusPending())
		e.Write(func(wtxn statedb.WriteTxn) { // deleted before it was reconciled by this loop
			_, _, err := e.Table.Insert(wtxn, z)
			require.NoError(e, err)
			_, _, err = e.Table.Delete(wtxn, z)
			require.NoError(e, err)
		})
		synctest.Wait()
		require.Empty(e, s.has("none"))
		require.NotContains(e, s.states, "none")

		// The store has c and d.
		s.take()
		e.edit("web", func(z *zone) {
			z.Records = []string{"d", "e", "f"}
			z.SetAnnotation(annotation, `["d","f","x"]`)
		})
		e.expect("web", "Done")
		require.Equal(e, []changes{
			{ItemsToAdd: []string{"e", "f"}, ItemsToRemove: []string{"c"}},
			{ItemsToAdd: []string{"e"}, ItemsToRemove: []string{"x"}},
		}, s.take())
		require.Equal(e, `["d","e","f"]`, s.states["web"])
	})
}

func TestAStoreErrorFailsTheAttempt(t *testing.T) {
	s := newStoring()
	inBubble(t, s, func(e *env) {
		s.failWith(errors.New("disk full"))
		e.change("web", "a")
		e.expect("web", "Error: load the state: disk full")
		require.Empty(e, s.take())
		s.failWith(nil)
		e.Pass(time.Second)
		e.expect("web", "Done")

		s.failWith(errors.New("disk full"))
		e.change("web", "b")
		e.expect("web", "Error: store the state: disk full")
		e.annotated("web", `["a"]`)
		s.failWith(nil)
		e.Pass(2 * time.Second)
		e.expect("web", "Done")
		require.Equal(e, map[string]string{"web": `["b"]`}, s.states)

		s.failWith(errors.New("disk full"))
		e.remove("web")
		s.failWith(nil)
		e.Pass(time.Minute)
		require.Empty(e, s.states)
		require.Empty(e, s.has("web"))
	})
}

// spaced writes its annotation itself, with spaces.
type spaced struct {
	*storing
	// breaks, if set, is called when the annotation is written.
	breaks func(z *zone) error
}

func (s *spaced) UpdateStateAnnotation(z *zone, current []string) error {
	text, err := json.Marshal(current)
	if err != nil {
		return err
	}
	z.Domain = "updated"
	z.SetAnnotation(annotation, strings.NewReplacer("[", "[ ", ",", ", ", "]", " ]").Replace(string(text)))
	var breaks func(z *zone) error
	s.locked(func() { breaks = s.breaks })
	if breaks != nil {
		return breaks(z)
	}
	return nil
}

func TestStoreStateGetsTheTextOfTheAnnotation(t *testing.T) {
	s := &spaced{storing: newStoring()}
	s.states["web"] = `["a","b"]` // stored before the program wrote its own annotation
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		e.expect("web", "Done")
		require.Empty(e, s.take(), "the target has it")
		e.annotated("web", `[ "a", "b" ]`)
		require.Equal(e, map[string]string{"web": `[ "a", "b" ]`}, s.states)
		require.Equal(e, "updated", e.get("web").Domain, "what else the updater sets is kept")
		e.change("web", "a", "b")
		e.refresh("web")
		require.Equal(e, 1, s.stores, "unchanged")
	})
}

func TestAFailedUpdaterLeavesTheAnnotation(t *testing.T) {
	// The empty text would tell the store that the resource was deleted.
	removes := func(z *zone) error { z.RemoveAnnotation(annotation); return nil }
	for want, breaks := range map[string]func(*zone) error{
		"Error: update the state annotation: too long": func(*zone) error { return errors.New("too long") },
		"Error: panic in update: too long":             func(*zone) error { panic("too long") },
		`Error: update the state annotation: *stateful_test.spaced.UpdateStateAnnotation has not set "` +
			annotation + `"`: removes,
	} {
		s := &spaced{storing: newStoring()}
		inBubble(t, s, func(e *env) {
			e.change("web", "a")
			s.locked(func() { s.breaks = breaks })
			e.change("web", "b")
			e.Pass(10 * time.Second)
			e.expect("web", want)
			e.annotated("web", `[ "a" ]`)
			require.Equal(e, map[string]string{"web": `[ "a" ]`}, s.states)
			require.Equal(e, []string{"b"}, s.has("web"))
		})
	}
}

// The state that was wanted before is wanted again. If the store kept the other one, items would be left behind
// after a restart.
func TestAStateIsStoredAgainAfterAnUnclearError(t *testing.T) {
	s := newStoring()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		s.locked(func() { s.lost = errors.New("no answer") })
		e.change("web", "a")
		e.expect("web", "Error: store the state: no answer")
		s.locked(func() { s.lost = nil })
		e.change("web", "a", "b")
		e.Pass(2 * time.Second)
		e.expect("web", "Done")
		require.Equal(e, []string{"a", "b"}, s.has("web"))
		require.Equal(e, map[string]string{"web": `["a","b"]`}, s.states)
		e.change("web", "a", "b")
		require.Equal(e, 3, s.stores, "unchanged")
	})
}

func TestAnUnreadableStoredStateIsAFirstReconciliation(t *testing.T) {
	s := newStoring()
	s.states["web"] = `["x", 1]` // decoded in part
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		e.expect("web", "Done")
		require.Contains(e, e.lastNote("web"), "a first reconciliation: stored annotation")
		require.Equal(e, []changes{adds("a")}, s.take())
		require.Equal(e, `["a"]`, s.states["web"])
	})
}
