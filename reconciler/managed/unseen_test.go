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

// there adds a resource that an earlier process has created.
func (e *env) there() {
	e.cloud.set(func(c *cloud) {
		for _, name := range e.names {
			c.buckets[name] = &stored{name, 1}
		}
	})
}

func TestDeletionWaitsForAResourceThatMayExist(t *testing.T) {
	for name, begin := range map[string]func(e *env){
		"create without an answer": func(e *env) {
			e.noAnswer()
			e.want(1)
			e.holds(1)
		},
		"create that timed out": func(e *env) {
			e.cloud.then("create", func(ctx context.Context, _ *bucket) error {
				<-ctx.Done()
				return ctx.Err()
			})
			e.want(1)
			pass(time.Minute)
			e.cloud.then("create", nil)
		},
		"create interrupted by a crash": func(e *env) {
			e.there()
			e.cloud.fail("observe", errors.New("down"))
			crash(e)
		},
		"of an earlier process": func(e *env) {
			e.there()
			e.cloud.fail("observe", errors.New("down"))
			e.want(1)
		},
		"created in vain": func(e *env) {
			e.there()
			e.cloud.fail("create", errors.New("503"))
			e.want(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.hide(true)
				begin(e)
				e.remove()
				e.cloud.before("observe", nil)
				e.goesOnlyWhenSeen()
			}, deterministic)
		})
	}
}

func TestDeletionWaitsForAResourceThatTheProgramNames(t *testing.T) {
	each(t, func(e *env) {
		e.hide(true)
		e.there()
		e.cloud.fail("connect", errors.New("down"))
		e.want(1, func(b *bucket) { managed.SetExternalName(b, b.Name) })
		e.remove()
		e.cloud.before("connect", nil)
		e.goesOnlyWhenSeen()
	}, nil)
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
