// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

// lastNote returns the note of the latest operation on a row.
func (e *env) lastNote(name string) string {
	events := e.Loop.Events(inspect.EventQuery{Key: name})
	require.NotEmpty(e, events)
	return events[len(events)-1].Note
}

// A row is changed repeatedly while its target fails. The number of remembered states is bounded,
// and so is the number of items in a call.
func TestTheMemoryOfAFailingObjectIsBounded(t *testing.T) {
	s := newServer()
	inBubble(t, s, func(e *env) {
		e.change("web", "a", "keep")
		heal := s.failOn("zero")
		for i := range 32 {
			e.change("web", "keep", fmt.Sprintf("x%d", i), "zero")
			pass(2 * time.Minute)
			e.expect("web", "Error: no space for zero")
			require.Empty(e, e.lastNote("web"))
		}
		s.take()
		for i := range 3 {
			e.change("web", "keep", fmt.Sprintf("y%d", i), "zero")
			pass(2 * time.Minute)
			e.expect("web", "Error: remove everything, to start over: no space for zero")
			require.Regexp(e, "^starting over: 3[23] states were tried in vain$", e.lastNote("web"))
		}
		for _, ops := range s.take() {
			require.Empty(e, ops.ItemsToAdd)
			require.Len(e, ops.ItemsToRemove, 35, "a, keep, zero and 32 others")
		}

		heal()
		e.change("web", "keep", "y")
		pass(2 * time.Minute)
		e.expect("web", "Done")
		e.annotated("web", `["keep","y"]`)
		require.Equal(e, []string{"keep", "y"}, s.has("web"))
		calls := s.take()
		require.Len(e, calls, 2)
		require.Len(e, calls[0].ItemsToRemove, 35)
		require.ElementsMatch(e, []string{"keep", "y"}, calls[1].ItemsToAdd)

		e.change("web", "y")
		require.Equal(e, []changes{removes("keep")}, s.take(), "the tried states are forgotten")
	})
}

// Whatever fails in between, the target has the wanted records in the end.
func TestStartingOverLosesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var base stateful.BaseStatefulReconciler[*zone, []string, string]
	s, z := newServer(), named("web")
	fault := errors.New("fault")
	startedOver := 0
	for range long.Times(500) {
		z = z.Clone()
		z.Records = nil
		for record := range 8 {
			if random.IntN(2) == 0 {
				z.Records = append(z.Records, fmt.Sprint(record))
			}
		}
		s.before(func(string, string) error {
			if random.IntN(3) > 0 {
				return fault
			}
			return nil
		})
		before := z.Clone()
		err := base.Reconcile(t.Context(), z, s)
		if err != nil {
			require.ErrorIs(t, err, fault)
			z = before // as the loop does: a failure commits no annotation
			if err.Error() != "fault" {
				startedOver++
			}
		}
		if random.IntN(50) > 0 && err != nil {
			continue
		}
		s.before(nil)
		require.NoError(t, base.Reconcile(t.Context(), z, s))
		require.ElementsMatch(t, z.Records, s.has("web"))
	}
	require.NotZero(t, startedOver, "no attempt started over")
}
