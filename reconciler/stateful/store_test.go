// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

// storing keeps its states in a map, which outlives the table.
type storing struct {
	*server
	states        map[string]string
	loads, stores int
	fail          error
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
	return nil
}

func (s *storing) fault() error {
	if s.flaky && (s.loads+s.stores)%10 == 0 {
		return errors.New("the store is busy")
	}
	return s.fail
}

func (s *storing) failWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

var _ stateful.StateStore[*zone] = (*storing)(nil)

// lives runs tests in sequence, each with a new table and loop, and all with one target and store.
func lives(t *testing.T, s *storing, tests ...func(e *env)) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			*s = *newStoring()
			for _, test := range tests {
				inBubble(t, s, test, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
				s.take()
			}
		})
	}
}

func TestStoredStatesOutliveTheTable(t *testing.T) {
	s := &storing{}
	lives(t, s, func(e *env) {
		e.change("web", "a", "b")
		e.change("mail", "a")
		e.change("gone", "a")
		e.remove("gone")
		e.change("none", "a")
		require.Equal(e, map[string]string{"web": `["a","b"]`, "mail": `["a"]`, "none": `["a"]`}, s.states)
		require.Equal(e, 5, s.stores)
	}, func(e *env) {
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
	}, func(e *env) {
		// Deleted before it was reconciled by this loop.
		wtxn := e.DB.WriteTxn(e.Table)
		z := named("none")
		z.Status = reconciler.StatusPending()
		_, _, err := e.Table.Insert(wtxn, z)
		require.NoError(e, err)
		_, _, err = e.Table.Delete(wtxn, z)
		require.NoError(e, err)
		wtxn.Commit()
		synctest.Wait()
		require.Empty(e, s.has("none"))
		require.NotContains(e, s.states, "none")
	})
}

func TestTheAnnotationAndTheStoreAreBothCompared(t *testing.T) {
	s := &storing{}
	lives(t, s, func(e *env) { e.change("web", "a", "b") }, func(e *env) {
		e.edit("web", func(z *zone) {
			z.Meta, z.Records = object.Meta{Name: "web"}, []string{"b", "c", "d"}
			z.SetAnnotation(annotation, `["b","c"]`)
		})
		e.expect("web", "Done")
		require.Equal(e, []string{"b", "c", "d"}, s.has("web"))
		require.Equal(e, `["b","c","d"]`, s.states["web"])
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
		pass(time.Second)
		e.expect("web", "Done")

		s.failWith(errors.New("disk full"))
		e.change("web", "b")
		e.expect("web", "Error: store the state: disk full")
		e.annotated("web", `["a"]`)
		s.failWith(nil)
		pass(2 * time.Second)
		e.expect("web", "Done")
		require.Equal(e, map[string]string{"web": `["b"]`}, s.states)

		s.failWith(errors.New("disk full"))
		e.remove("web")
		s.failWith(nil)
		pass(time.Minute)
		require.Empty(e, s.states)
		require.Empty(e, s.has("web"))
	})
}

// spaced writes its annotation itself, with spaces.
type spaced struct {
	*storing
	// breaks, if set, is called when the annotation is written.
	breaks func() error
}

func (s *spaced) UpdateStateAnnotation(z *zone, current []string) error {
	text, err := json.Marshal(current)
	if err != nil {
		return err
	}
	z.Domain = "updated"
	z.SetAnnotation(annotation, strings.NewReplacer("[", "[ ", ",", ", ", "]", " ]").Replace(string(text)))
	s.mu.Lock()
	breaks := s.breaks
	s.mu.Unlock()
	if breaks != nil {
		return breaks()
	}
	return nil
}

func (s *spaced) breakWith(f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaks = f
}

func TestStoreStateGetsTheTextOfTheAnnotation(t *testing.T) {
	s := &spaced{storing: newStoring()}
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "b")
		e.expect("web", "Done")
		e.annotated("web", `[ "a", "b" ]`)
		require.Equal(e, map[string]string{"web": `[ "a", "b" ]`}, s.states)
		require.Equal(e, "updated", e.get("web").Domain, "what else the updater sets is kept")
		e.change("web", "a", "b")
		e.refresh("web")
		require.Equal(e, 1, s.stores, "unchanged")

		s.failWith(errors.New("disk full"))
		e.change("web", "c")
		e.expect("web", "Error: store the state: disk full")
		e.annotated("web", `[ "a", "b" ]`)
		s.failWith(nil)
		pass(2 * time.Second)
		e.expect("web", "Done")
		e.annotated("web", `[ "c" ]`)
		require.Equal(e, map[string]string{"web": `[ "c" ]`}, s.states)
	})
}

// A table that was lost is filled again. Its annotations are those of the store.
func TestAStoredTextBecomesTheAnnotation(t *testing.T) {
	s := &spaced{storing: newStoring()}
	s.states["web"] = `["a"]` // stored before the program wrote its own annotation
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		e.expect("web", "Done")
		require.Empty(e, s.take(), "the target has it")
		e.annotated("web", `[ "a" ]`)
		require.Equal(e, map[string]string{"web": `[ "a" ]`}, s.states)
	})
}

func TestAFailedUpdaterLeavesTheAnnotation(t *testing.T) {
	for _, broken := range []func() error{
		func() error { return errors.New("too long") },
		func() error { panic("too long") },
	} {
		s := &spaced{storing: newStoring()}
		inBubble(t, s, func(e *env) {
			e.change("web", "a")
			s.breakWith(broken)
			e.change("web", "b")
			pass(10 * time.Second)
			require.Contains(e, e.get("web").Status.GetError(), "too long")
			e.annotated("web", `[ "a" ]`)
			require.Equal(e, map[string]string{"web": `[ "a" ]`}, s.states)
			require.Equal(e, []string{"b"}, s.has("web"))
		})
	}
}

// silent is an updater that sets nothing.
type silent struct{ *storing }

func (silent) UpdateStateAnnotation(*zone, []string) error { return nil }

// The empty text would tell the store that the resource was deleted.
func TestAnUpdaterThatSetsNothingFailsTheAttempt(t *testing.T) {
	s := silent{newStoring()}
	s.states["web"] = `["a"]`
	inBubble(t, s, func(e *env) {
		e.change("web", "b")
		e.expect("web", `Error: update the state annotation: stateful_test.silent.UpdateStateAnnotation has not set "example.org/records"`)
		require.Equal(e, map[string]string{"web": `["a"]`}, s.states)
	})
}

// unclear stores a state, and may then not know whether it did.
type unclear struct {
	*storing
	lost atomic.Bool
}

func (u *unclear) StoreState(ctx context.Context, z *zone, text string) error {
	if err := u.storing.StoreState(ctx, z, text); err != nil || !u.lost.Load() {
		return err
	}
	return errors.New("no answer")
}

// The state that was wanted before is wanted again. If the store kept the other one, items would be left behind
// after a restart.
func TestAStateIsStoredAgainAfterAnUnclearError(t *testing.T) {
	u := &unclear{storing: newStoring()}
	inBubble(t, u, func(e *env) {
		e.change("web", "a", "b")
		u.lost.Store(true)
		e.change("web", "a")
		e.expect("web", "Error: store the state: no answer")
		u.lost.Store(false)
		e.change("web", "a", "b")
		pass(2 * time.Second)
		e.expect("web", "Done")
		require.Equal(e, []string{"a", "b"}, u.has("web"))
		require.Equal(e, map[string]string{"web": `["a","b"]`}, u.states)
		e.change("web", "a", "b")
		require.Equal(e, 3, u.stores, "unchanged")
	})
}

func TestAnUnreadableStoredStateIsAFirstReconciliation(t *testing.T) {
	s := newStoring()
	s.states["web"] = "{"
	inBubble(t, s, func(e *env) {
		e.change("web", "a")
		e.expect("web", "Done")
		require.Contains(e, e.lastNote("web"), "a first reconciliation: stored annotation")
		require.Equal(e, `["a"]`, s.states["web"])
	})
}
