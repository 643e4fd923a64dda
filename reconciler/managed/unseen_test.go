// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// A created resource may be invisible at first. This must not make a deletion end before the resource
// is gone.

// hide makes the buckets of the cloud invisible or visible.
func (e *env) hide(hidden bool) { e.cloud.set(func(c *cloud) { c.blind = hidden }) }

// goesOnlyWhenSeen requires that objects being deleted stay while their buckets are invisible, and go
// with the buckets when these are visible.
func (e *env) goesOnlyWhenSeen() {
	e.Helper()
	pass(5 * time.Second)
	e.holds(1)
	e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
	e.hide(false)
	pass(2 * time.Minute)
	e.gone()
	e.holds(-1)
}

// noAnswer lets creates take effect without an answer.
func (e *env) noAnswer() {
	e.cloud.then("create", func(context.Context, *bucket) error {
		return fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
	})
}

func TestDeletionWaitsForACreateWithoutAnswer(t *testing.T) {
	each(t, func(e *env) {
		e.hide(true)
		e.noAnswer()
		e.want(1)
		e.holds(1)
		e.remove()
		e.goesOnlyWhenSeen()
	}, deterministic)
}

func TestDeletionWaitsForACreateThatTimedOut(t *testing.T) {
	each(t, func(e *env) {
		e.hide(true)
		e.cloud.then("create", func(ctx context.Context, _ *bucket) error {
			<-ctx.Done()
			return ctx.Err()
		})
		e.want(1)
		pass(time.Minute)
		e.cloud.then("create", nil)
		e.remove()
		e.goesOnlyWhenSeen()
	}, deterministic)
}

func TestDeletionWaitsForACreateInterruptedByACrash(t *testing.T) {
	each(t, func(e *env) {
		e.hide(true)
		for _, name := range e.names {
			e.cloud.buckets[name] = &stored{name, 1}
		}
		e.cloud.fail("observe", errors.New("down"))
		crash(e)
		e.remove()
		e.cloud.before("observe", nil)
		e.goesOnlyWhenSeen()
	}, deterministic)
}

func TestFailedCreateDoesNotHideAnEarlierUnsureOne(t *testing.T) {
	each(t, func(e *env) {
		e.hide(true)
		e.noAnswer()
		e.want(1)
		e.holds(1)
		e.cloud.then("create", nil)
		e.cloud.fail("create", errors.New("503"))
		pass(time.Second)
		e.told("Warning CannotCreateExternalResource", "Warning CannotCreateExternalResource")
		e.remove()
		e.goesOnlyWhenSeen()
	}, deterministic)
}

func TestDeletionWaitsForAResourceOfAnEarlierProcess(t *testing.T) {
	earlier := func(e *env) {
		e.hide(true)
		for _, name := range e.names {
			e.cloud.buckets[name] = &stored{name, 1}
		}
	}
	t.Run("deleted at once", func(t *testing.T) {
		each(t, func(e *env) {
			earlier(e)
			e.cloud.fail("connect", errors.New("down"))
			e.want(1)
			e.remove()
			e.cloud.before("connect", nil)
			e.goesOnlyWhenSeen()
		}, deterministic)
	})
	t.Run("created in vain", func(t *testing.T) {
		each(t, func(e *env) {
			earlier(e)
			e.cloud.fail("create", errors.New("503"))
			e.want(1)
			e.remove()
			e.goesOnlyWhenSeen()
		}, deterministic)
	})
	t.Run("named by the program", func(t *testing.T) {
		each(t, func(e *env) {
			earlier(e)
			e.cloud.fail("connect", errors.New("down"))
			e.want(1, func(b *bucket) { managed.SetExternalName(b, b.Name) })
			e.remove()
			e.cloud.before("connect", nil)
			e.goesOnlyWhenSeen()
		}, nil)
	})
}

func TestDeletionWaitsAtMostTheGraceForAnUnsureCreate(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.fail("observe", errors.New("down"))
		crash(e)
		e.remove()
		e.cloud.before("observe", nil)
		// The grace begins when the call would have timed out.
		pass(80 * time.Second)
		e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
		// This covers the rest of it and the last backoff.
		pass(time.Minute)
		e.gone()
	}, deterministic)
}

func TestRemovedRowWaitsForACreateWithoutAnswer(t *testing.T) {
	each(t, func(e *env) {
		e.hide(true)
		e.noAnswer()
		e.want(1)
		e.removeDirectly()
		pass(5 * time.Second)
		e.holds(1)
		e.hide(false)
		pass(2 * time.Minute)
		e.holds(-1)
	}, deterministic)
}

func TestDeletionLongAfterTheStartDoesNotWait(t *testing.T) {
	each(t, func(e *env) {
		pass(time.Minute)
		e.cloud.fail("connect", errors.New("down"))
		e.want(1)
		e.remove()
		e.cloud.before("connect", nil)
		pass(2 * time.Second)
		e.gone()
	}, deterministic)
}

func TestDeletionWithdrawnInTheLastMomentKeepsTheRow(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			if row := e.get(b.Name); managed.WasDeleted(row) && len(e.cloud.holds(b.Name)) == 0 {
				wtxn := e.DB.WriteTxn(e.Table)
				defer wtxn.Commit()
				_, err := e.writer().Edit(wtxn, row, func(b *bucket) { b.DeletionTime = time.Time{} })
				return err
			}
			return nil
		})
		e.remove()
		pass(time.Minute)
		e.holds(1)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
	}, noGrace)
}
