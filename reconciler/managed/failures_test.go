// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestFailingStepSetsConditionRecordsEventAndBacksOff(t *testing.T) {
	for op, event := range map[string]string{
		"connect": "Warning CannotConnectToProvider",
		"observe": "Warning CannotObserveExternalResource",
		"update":  "Warning CannotUpdateExternalResource",
	} {
		t.Run(op, func(t *testing.T) {
			each(t, func(e *env) {
				e.settle(1)
				e.cloud.fail(op, errors.New("refused"))
				e.want(2)
				e.forgetCalls()
				e.told(event)
				e.is(managed.ConditionReason("ReconcileError"), managed.ConditionReason("Available"))
				e.rows(func(b *bucket) {
					require.Equal(e, op+": refused", b.GetCondition(managed.TypeSynced).Message)
					require.Equal(e, op+": refused", b.Status.GetError())
				})
				at := e.revision()
				pass(time.Second)
				e.told(event)
				pass(2 * time.Second)
				e.told(event)
				require.Equal(e, at, e.revision(), "the same failure is not written again")
				e.cloud.before(op, nil)
				pass(4 * time.Second)
				e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
				e.holds(2)
			}, nil)
		})
	}
}

func (e *env) forgetCalls() {
	for _, name := range e.names {
		e.cloud.take(name)
	}
}

func TestRetryAfterOfAServerIsObserved(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.before("create", func(context.Context, *bucket) error {
			return reconciler.RetryAfter(errors.New("429"), 17*time.Second)
		})
		e.want(1)
		e.called("connect", "observe", "create")
		pass(16 * time.Second)
		e.called()
		pass(time.Second)
		e.called("connect", "observe", "create")
	}, nil)
}

func TestTerminalErrorIsNotRetried(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.before("create", func(context.Context, *bucket) error {
			return reconciler.TerminalError(errors.New("no such size"))
		})
		e.want(1)
		e.called("connect", "observe", "create")
		pass(time.Hour)
		e.called()
		e.is(managed.ConditionReason("ReconcileError"), managed.ConditionReason("Creating"))
	}, nil)
}

func TestFailingDisconnectIsOnlyAnEvent(t *testing.T) {
	var n atomic.Int32
	each(t, func(e *env) {
		e.want(1)
		e.told("Normal CreatedExternalResource", "Warning CannotDisconnectFromProvider")
		pass(time.Second)
		e.told("Warning CannotDisconnectFromProvider")
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.status(reconciler.StatusKindDone)
		e.forgetCalls()
		pass(50 * time.Second)
		e.called()
		require.EqualValues(e, 2*len(e.names), n.Swap(0), "once per pass")
	}, func(e *env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithExternalConnectDisconnecter(managed.ExternalConnectDisconnecterFns[*bucket]{
			ConnectFn: e.cloud.Connect,
			DisconnectFn: func(context.Context) error {
				n.Add(1)
				return errors.New("already closed")
			},
		})}
	})
}

// session is a client with its own connection.
type session struct {
	*cloud
	open *atomic.Int32
}

func (s session) Disconnect(ctx context.Context) error {
	s.open.Add(-1)
	return ctx.Err()
}

func TestClientIsDisconnectedHoweverThePassEnds(t *testing.T) {
	var open atomic.Int32
	each(t, func(e *env) {
		e.cloud.fail("observe", errors.New("down"))
		e.want(1)
		require.Zero(e, open.Load())
		e.cloud.before("observe", func(context.Context, *bucket) error { panic("nil map") })
		pass(time.Second)
		require.Zero(e, open.Load())
		e.cloud.before("observe", func(ctx context.Context, _ *bucket) error {
			<-ctx.Done()
			return ctx.Err()
		})
		pass(2 * time.Second)
		require.Positive(e, open.Load())
		e.forget()
		e.Stop()
		require.Zero(e, open.Load())
		e.told()
	}, func(e *env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithExternalConnecter(managed.ExternalConnectorFn[*bucket](
			func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) {
				open.Add(1)
				return session{e.cloud, &open}, nil
			}))}
	})
}

// breaking is a client whose Disconnect panics.
type breaking struct{ *cloud }

func (breaking) Disconnect(context.Context) error { panic("double close") }

func TestPanickingDisconnectIsOnlyAnEvent(t *testing.T) {
	panics := func(context.Context) error { panic("double close") }
	for whose, connecter := range map[string]func(e *env) managed.ReconcilerOption{
		"client": func(e *env) managed.ReconcilerOption {
			return managed.WithExternalConnecter(managed.ExternalConnectorFn[*bucket](
				func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) { return breaking{e.cloud}, nil }))
		},
		"connecter": func(e *env) managed.ReconcilerOption {
			return managed.WithExternalConnectDisconnecter(managed.ExternalConnectDisconnecterFns[*bucket]{
				ConnectFn: e.cloud.Connect, DisconnectFn: panics,
			})
		},
	} {
		t.Run(whose, func(t *testing.T) {
			each(t, func(e *env) {
				e.want(1)
				pass(time.Second)
				broken := "Warning CannotDisconnectFromProvider"
				e.told("Normal CreatedExternalResource", broken, broken)
				e.is("ReconcileSuccess", "Available")
				e.status(reconciler.StatusKindDone)
				e.cloud.before("observe", func(context.Context, *bucket) error { panic("nil map") })
				pass(time.Minute)
				e.rows(func(b *bucket) {
					require.Contains(e, b.Status.GetError(), "nil map")
					require.Contains(e, e.events.take(b.Name), broken)
				})
			}, func(e *env) []managed.ReconcilerOption { return []managed.ReconcilerOption{connecter(e)} })
		})
	}
}

func TestConnecterThatReturnsNilIsAnError(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.rows(func(b *bucket) { require.Equal(e, "connect: the connecter returned no client", b.Status.GetError()) })
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithExternalConnecter(managed.ExternalConnectorFn[*bucket](
			func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) { return nil, nil }))}
	})
}

func TestPanicInObserveKeepsTheConditions(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.before("observe", func(context.Context, *bucket) error { panic("nil map") })
		pass(time.Minute)
		e.status(reconciler.StatusKindError)
		e.rows(func(b *bucket) { require.True(e, managed.IsReady(b)) })
		e.cloud.before("observe", nil)
		pass(time.Minute)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
	}, nil)
}

func TestStepsOfAPassAreInItsNote(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.want(2)
		for _, name := range e.names {
			explained := e.Loop.Explain(e.Context(), name)
			require.Contains(e, fmt.Sprint(explained), "observe: differs; size 1, want 2; updated")
		}
	}, nil)
}
