// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// A deletion ends when the resource is gone, whatever happens before.

func TestDeletionIsNeverGivenUp(t *testing.T) {
	for name, err := range map[string]error{
		"failure": errors.New("busy"), "terminal": reconciler.TerminalError(errors.New("in use")),
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.settle(1)
				e.cloud.fail("delete", err)
				e.remove()
				pass(10 * time.Minute)
				e.rows(func(b *bucket) { require.NotContains(e, b.Status.GetError(), "given up") })
				e.cloud.before("delete", nil)
				pass(2 * time.Minute)
				e.gone()
				e.holds(-1)
			}, func(e *env) []managed.ReconcilerOption {
				e.options = append(e.options, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
				return noGrace(e)
			})
		})
	}
}

func TestDeletionIsUnreconciledUntilItsResourceIsGone(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) { c.sticky = true })
		e.remove()
		upTo := e.revision()
		pass(time.Minute)
		e.status(reconciler.StatusKindBlocked)
		e.rows(func(b *bucket) { require.Equal(e, "still deleting", b.Status.GetError()) })
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		_, err := e.Loop.Wait(ctx, upTo, reconciler.Applied)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		e.cloud.set(func(c *cloud) { c.sticky = false })
		_, err = e.Loop.Wait(e.Context(), upTo, reconciler.Applied)
		require.NoError(e, err)
		e.gone()
	}, noGrace)
}

// dozenWithBreaker sets up a dozen objects. Five failing ones open the breaker.
func dozenWithBreaker(e *env) []managed.ReconcilerOption {
	e.names = nil
	for _, letter := range "abcdefghijkl" {
		e.names = append(e.names, string(letter))
	}
	e.options = append(e.options, reconciler.WithBreaker(reconciler.Breaker{Failures: 5}))
	return noGrace(e)
}

// What Observe sets while a resource is being deleted is written at once.
func TestConditionsSetDuringADeletionAreWritten(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) { c.sticky = true })
		e.remove()
		pass(10 * time.Second)
		at := e.revision()
		pass(2 * time.Minute)
		require.Equal(e, at, e.revision(), "polls that find no change write nothing")
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			b.SetAnnotation("example.org/progress", "50 %")
			return nil
		})
		pass(2 * time.Minute)
		e.rows(func(b *bucket) { require.Equal(e, "50 %", b.Annotations["example.org/progress"]) })
	}, noGrace)
}

// Neither a slow deletion nor one that waits for a person means that the outside system is down.
func TestDeletionsThatWaitOpenNoBreaker(t *testing.T) {
	for name, away := range map[string]func(e *env){
		"slow": func(e *env) {
			e.settle(1)
			e.cloud.set(func(c *cloud) { c.sticky = true })
			e.remove()
		},
		"slow, removed directly": func(e *env) {
			e.settle(1)
			e.cloud.set(func(c *cloud) { c.sticky = true })
			e.removeDirectly()
		},
		"paused, removed directly": func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetPaused(b, true) })
			e.removeDirectly()
		},
		"unsure":                   func(e *env) { crash(e); e.remove() },
		"unsure, removed directly": func(e *env) { crash(e); e.removeDirectly() },
		"policies that cannot be read": func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetDeletionPolicy(b, "Maybe") })
			e.remove()
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				away(e)
				pass(2 * time.Minute)
				require.Empty(e, e.Loop.Snapshot(e.Context()).Breaker)
				e.names = []string{"fresh"}
				e.want(1)
				e.holds(1)
			}, dozenWithBreaker)
		})
	}
}
