// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// The context of the calls makes its timer when it is first needed. Its users must not notice a
// difference.

func TestCallsOfAPassEndAtTheEarliestDeadline(t *testing.T) {
	type key struct{}
	waits := map[string]func(ctx context.Context) error{
		"done": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"child": func(ctx context.Context) error {
			child, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Hour)
			defer cancel()
			<-child.Done()
			return child.Err()
		},
	}
	for name, tt := range map[string]struct {
		opt  any
		left time.Duration
	}{
		"that of the option": {[]any{}, 3 * time.Second},
		"that of the loop":   {reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }), time.Second},
		"after other calls": {managed.WithInitializers(managed.Initializer[*bucket](func(context.Context, *bucket) error {
			time.Sleep(2 * time.Second)
			return nil
		})), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			table(t, waits, func(e *env, wait func(ctx context.Context) error) {
				e.cloud.before("observe", func(ctx context.Context, _ *bucket) error {
					at, ok := ctx.Deadline()
					assert.True(e, ok)
					assert.Equal(e, tt.left, time.Until(at))
					err := wait(ctx)
					assert.ErrorIs(e, err, context.DeadlineExceeded)
					assert.Zero(e, time.Since(at))
					return err
				})
				e.want(1)
				pass(2 * 3 * time.Second) // the workers need two rounds
				e.is("ReconcileError", "")
			}, managed.WithTimeout(3*time.Second), reconciler.WithRetry(time.Hour, time.Hour), tt.opt)
		})
	}
}

func TestCallContextEndsWhenTheProgramStops(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.before("observe", func(ctx context.Context, _ *bucket) error {
			<-ctx.Done()
			assert.ErrorIs(e, ctx.Err(), context.Canceled)
			return ctx.Err()
		})
		e.want(1)
		e.Stop()
		e.told()
	})
}

// A client that keeps the context of a call cannot use it after the pass, whether it has used it before
// or not.
func TestCallContextEndsWithThePass(t *testing.T) {
	table(t, map[string]func(ctx context.Context){
		"unused":  func(context.Context) {},
		"used":    func(ctx context.Context) { ctx.Done() },
		"watched": func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
	}, func(e *env, use func(ctx context.Context)) {
		kept := make(chan context.Context, 4*len(e.names))
		e.cloud.before("observe", func(ctx context.Context, _ *bucket) error {
			use(ctx)
			kept <- ctx
			return nil
		})
		e.want(1)
		for range e.names {
			ctx := <-kept
			require.ErrorIs(e, ctx.Err(), context.Canceled)
			<-ctx.Done()
			require.ErrorIs(e, context.Cause(ctx), context.Canceled)
			child, cancel := context.WithCancel(ctx)
			require.Error(e, child.Err())
			cancel()
		}
	}, managed.WithTimeout(3*time.Second))
}

// Without a timeout a create may take effect until it returns: the grace begins then.
func TestGraceBeginsAtTheEndOfACreateWithoutTimeout(t *testing.T) {
	each(t, func(e *env) {
		e.names = e.names[:e.workers]
		e.hide(true)
		e.cloud.before("create", func(context.Context, *bucket) error {
			time.Sleep(10 * time.Minute)
			return nil
		})
		e.noAnswer()
		e.want(1)
		e.remove()
		pass(10 * time.Minute)
		e.goesOnlyWhenSeen()
	}, deterministic, managed.WithTimeout(0))
}

func TestStopBeforeTheCreateIsNotUnsure(t *testing.T) {
	each(t, func(e *env) {
		begun := make(chan struct{}, len(e.names))
		e.cloud.then("observe", func(ctx context.Context, _ *bucket) error {
			begun <- struct{}{}
			<-ctx.Done()
			return nil // what it read before the stop
		})
		e.cloud.before("create", func(ctx context.Context, _ *bucket) error { return ctx.Err() })
		e.want(1)
		<-begun
		e.Stop()
		e.notCalled("create")
		e.rows(func(b *bucket) {
			require.False(e, managed.IsCreateIncomplete(b), "%q: %v", b.Name, b.Annotations)
			require.NotEqual(e, managed.ReasonCreateUnsure, b.GetCondition(managed.TypeSynced).Reason)
		})
	})
}
