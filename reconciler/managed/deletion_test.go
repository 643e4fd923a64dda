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

// A deletion may fail for a long time, until a person removes the cause.
func TestDeletionContinuesWhenItsPoliciesBecomeValid(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) {
			managed.SetDeletionPolicy(b, "Maybe")
			b.DeletionTime = time.Now()
		})
		pass(time.Minute)
		e.status(reconciler.StatusKindError)
		e.edit(func(b *bucket) { managed.SetDeletionPolicy(b, managed.DeletionDelete) })
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, noGrace)
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

// createsMore requires that no breaker is open, and that a new object is created at once.
func (e *env) createsMore() {
	e.Helper()
	require.Empty(e, e.Loop.Snapshot(e.Context()).Breaker)
	wtxn := e.DB.WriteTxn(e.Table)
	_, err := e.writer().Apply(wtxn, named("fresh"), asItIs)
	require.NoError(e, err)
	wtxn.Commit()
	pass(0)
	require.Len(e, e.cloud.holds("fresh"), 1)
}

// A slow deletion does not mean that the outside system is down.
func TestSlowDeletionsOpenNoBreaker(t *testing.T) {
	for name, away := range map[string]func(e *env){"requested": (*env).remove, "removed directly": (*env).removeDirectly} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.settle(1)
				e.cloud.set(func(c *cloud) { c.sticky = true })
				away(e)
				pass(time.Minute)
				e.holds(1)
				e.createsMore()
				e.cloud.set(func(c *cloud) { c.sticky = false })
				pass(2 * time.Minute)
				e.gone()
				e.holds(-1)
			}, dozenWithBreaker)
		})
	}
}

// Removed rows that wait for a person are no failures either, though no row shows it.
func TestRemovedRowsWaitingForAPersonOpenNoBreaker(t *testing.T) {
	for name, stuck := range map[string]func(e *env){
		"paused": func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		},
		"unsure": crash,
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				stuck(e)
				e.removeDirectly()
				pass(10 * time.Minute)
				e.createsMore()
			}, dozenWithBreaker)
		})
	}
}

// Neither are deletions that wait for others to act.
func TestDeletionsWaitingForAPersonOpenNoBreaker(t *testing.T) {
	for name, stuck := range map[string]func(e *env){
		"unsure": crash,
		"policies that cannot be read": func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetDeletionPolicy(b, "Maybe") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				stuck(e)
				e.remove()
				pass(2 * time.Minute)
				e.createsMore()
			}, dozenWithBreaker)
		})
	}
}

// A person decides about a removed row by putting it back: its notes come back with it.
func TestUnsureCreateOfARemovedRowIsDecidedLater(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.then("create", func(context.Context, *bucket) error { return managed.ErrCreateUnsure })
		e.want(1)
		e.cloud.then("create", nil)
		e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
		e.removeDirectly()
		pass(time.Hour)
		e.holds(1)
		e.forget()

		e.replace(1)
		e.called()
		e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
		e.edit(func(b *bucket) {
			e.cloud.set(func(c *cloud) {
				for id, s := range c.buckets {
					if s.owner == b.Name {
						managed.DecideCreate(b, id)
					}
				}
			})
			b.DeletionTime = time.Now()
		})
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, noGrace)
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
