// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// WithTimeout bounds all calls of the user's code in one pass together.

// hangs waits until the context of the call ends.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestEveryCallOfAPassEndsAtTheTimeout(t *testing.T) {
	named := managed.NewFinalizer[*bucket](managed.FinalizerName)
	for call, option := range map[string]managed.ReconcilerOption{
		"initializer": managed.WithInitializers(managed.Initializer[*bucket](
			func(ctx context.Context, _ *bucket) error { return hangs(ctx) })),
		"publisher": managed.WithConnectionPublishers(managed.ConnectionPublisher[*bucket](publisherFns[*bucket]{
			publish: func(ctx context.Context, _ *bucket, _ managed.ConnectionDetails) error { return hangs(ctx) },
		})),
		"finalizer": managed.WithFinalizer(finalizerFns[*bucket]{
			add: func(ctx context.Context, _ *bucket) error { return hangs(ctx) },
		}),
		"unpublisher": managed.WithConnectionPublishers(managed.ConnectionPublisher[*bucket](publisherFns[*bucket]{
			unpublish: func(ctx context.Context, _ *bucket, _ managed.ConnectionDetails) error { return hangs(ctx) },
		})),
		"finalizer removed": managed.WithFinalizer(finalizerFns[*bucket]{
			add:    named.AddFinalizer,
			remove: func(ctx context.Context, _ *bucket) error { return hangs(ctx) },
		}),
	} {
		t.Run(call, func(t *testing.T) {
			each(t, func(e *env) {
				e.want(1)
				pass(2 * waves * 4 * time.Second)
				if call == "unpublisher" || call == "finalizer removed" {
					e.remove()
					pass(2 * waves * 4 * time.Second)
				}
				e.rows(func(b *bucket) {
					require.Contains(e, b.GetCondition(managed.TypeSynced).Message, context.DeadlineExceeded.Error(), "%q", b.Name)
				})
			}, func(*env) []managed.ReconcilerOption {
				return append(noGrace(nil), managed.WithTimeout(3*time.Second), option)
			})
		})
	}
}

func TestCallsOfAPassShareOneTimeout(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.before("observe", func(ctx context.Context, _ *bucket) error {
			at, ok := ctx.Deadline()
			assert.True(e, ok)
			assert.Equal(e, time.Second, time.Until(at))
			return nil
		})
		e.want(1)
		pass(waves * 3 * time.Second)
		e.called("connect", "observe", "create")
	}, func(e *env) []managed.ReconcilerOption {
		e.onceOnly()
		return []managed.ReconcilerOption{
			managed.WithTimeout(3 * time.Second),
			managed.WithInitializers(managed.Initializer[*bucket](func(context.Context, *bucket) error {
				time.Sleep(2 * time.Second)
				return nil
			})),
		}
	})
}

// Even without a timeout, a client that keeps the context of a call cannot use it after the pass.
func TestCallContextWithoutTimeoutEndsWithThePass(t *testing.T) {
	each(t, func(e *env) {
		kept := make(chan context.Context, 4*len(e.names))
		e.cloud.before("observe", func(ctx context.Context, _ *bucket) error {
			_, bounded := ctx.Deadline()
			assert.False(e, bounded)
			assert.NoError(e, ctx.Err())
			kept <- ctx
			return nil
		})
		e.want(1)
		for range e.names {
			ctx := <-kept
			require.ErrorIs(e, ctx.Err(), context.Canceled)
			select {
			case <-ctx.Done():
			default:
				require.Fail(e, "the context has not ended")
			}
		}
	}, timeout(0))
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
	}, func(*env) []managed.ReconcilerOption { return append(deterministic(nil), managed.WithTimeout(0)) })
}
