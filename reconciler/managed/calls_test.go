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

// waves is how many rounds the workers need until each object had its turn.
const waves = 2

func timeout(d time.Duration) func(*env) []managed.ReconcilerOption {
	return func(e *env) []managed.ReconcilerOption {
		e.onceOnly()
		return []managed.ReconcilerOption{managed.WithTimeout(d)}
	}
}

// onceOnly prevents retries during the test.
func (e *env) onceOnly() { e.options = append(e.options, reconciler.WithRetry(time.Hour, time.Hour)) }

func TestEarlierDeadlineOfTheLoopAppliesToCalls(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.before("observe", func(ctx context.Context, _ *bucket) error {
			at, ok := ctx.Deadline()
			assert.True(e, ok)
			assert.Equal(e, time.Second, time.Until(at))
			<-ctx.Done()
			return ctx.Err()
		})
		e.want(1)
		pass(waves * time.Second)
		e.is(managed.ConditionReason("ReconcileError"), "")
	}, func(e *env) []managed.ReconcilerOption {
		e.onceOnly()
		e.options = append(e.options, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second }))
		return []managed.ReconcilerOption{managed.WithTimeout(3 * time.Second)}
	})
}

// Whatever the client waits on, it waits for three seconds.
func TestCallContextEndsAtItsDeadline(t *testing.T) {
	type key struct{}
	for name, wait := range map[string]func(ctx context.Context) error{
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
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.cloud.before("observe", func(ctx context.Context, _ *bucket) error {
					begun := time.Now()
					err := wait(ctx)
					assert.ErrorIs(e, err, context.DeadlineExceeded)
					assert.Equal(e, 3*time.Second, time.Since(begun))
					return err
				})
				e.want(1)
				pass(waves * 3 * time.Second)
				e.is(managed.ConditionReason("ReconcileError"), "")
			}, timeout(3*time.Second))
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
	}, nil)
}

// A client that keeps the context of a call cannot use it after the pass, whether it has used it before
// or not.
func TestCallContextEndsWithThePass(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context){
		"unused":  func(context.Context) {},
		"used":    func(ctx context.Context) { ctx.Done() },
		"watched": func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				kept := make(chan context.Context, 4*len(e.names))
				e.cloud.before("observe", func(ctx context.Context, _ *bucket) error {
					use(ctx)
					kept <- ctx
					return nil
				})
				e.want(1)
				require.GreaterOrEqual(e, len(kept), len(e.names))
				for range e.names {
					ctx := <-kept
					require.ErrorIs(e, ctx.Err(), context.Canceled)
					select {
					case <-ctx.Done():
					default:
						require.Fail(e, "the context has not ended")
					}
					require.ErrorIs(e, context.Cause(ctx), context.Canceled)
					// A child context has ended as well.
					child, cancel := context.WithCancel(ctx)
					require.Error(e, child.Err())
					cancel()
				}
			}, timeout(3*time.Second))
		})
	}
}

// WithTimeout bounds all calls of the user's code in one pass together.

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

// A create that was not started does not wait for a person.

// createsNothing requires that Create was not called, and that no row waits for a person.
func (e *env) createsNothing() {
	e.Helper()
	for _, name := range e.names {
		require.NotContains(e, e.cloud.take(name), "create")
	}
	e.rows(func(b *bucket) {
		require.False(e, managed.IsCreateIncomplete(b), "%q: %v", b.Name, b.Annotations)
		require.NotEqual(e, managed.ReasonCreateUnsure, b.GetCondition(managed.TypeSynced).Reason)
	})
}

func TestStopBeforeTheCreateIsNotUnsure(t *testing.T) {
	each(t, func(e *env) {
		begun := make(chan struct{}, len(e.names))
		e.cloud.then("observe", func(ctx context.Context, _ *bucket) error {
			begun <- struct{}{}
			<-ctx.Done()
			return nil // what it read before the stop
		})
		e.respectContext()
		e.want(1)
		<-begun
		e.Stop()
		e.createsNothing()
	}, nil)
}

// respectContext makes all calls fail whose context has ended.
func (e *env) respectContext() {
	e.cloud.before("create", func(ctx context.Context, _ *bucket) error { return ctx.Err() })
}
