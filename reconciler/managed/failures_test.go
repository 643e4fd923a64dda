// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

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

// session is a client with its own connection.
type session struct {
	*cloud
	disconnect func(ctx context.Context) error
}

func (s session) Disconnect(ctx context.Context) error { return s.disconnect(ctx) }

// connects returns options with a connecter that calls disconnect at the end of each pass, for the client or itself.
func (e *env) connects(client bool, disconnect func(ctx context.Context) error) []managed.ReconcilerOption {
	fns := managed.ExternalConnectDisconnecterFns[*bucket]{ConnectFn: e.cloud.Connect, DisconnectFn: disconnect}
	if client {
		fns.DisconnectFn = nil
		fns.ConnectFn = func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) {
			return session{e.cloud, disconnect}, nil
		}
	}
	return []managed.ReconcilerOption{managed.WithExternalConnectDisconnecter[*bucket](fns)}
}

func TestFailingDisconnectIsOnlyAnEvent(t *testing.T) {
	for how, disconnect := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("already closed") },
		"panic": func(context.Context) error { panic("double close") },
	} {
		for _, client := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, client %t", how, client), func(t *testing.T) {
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
				}, func(e *env) []managed.ReconcilerOption { return e.connects(client, disconnect) })
			})
		}
	}
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
		e.cloud.before("connect", func(context.Context, *bucket) error { open.Add(1); return nil })
		return e.connects(false, func(ctx context.Context) error { open.Add(-1); return ctx.Err() })
	})
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

// messages is a log handler that keeps the messages.
type messages struct {
	slog.Handler
	said *[]string
}

func (m messages) Enabled(context.Context, slog.Level) bool { return true }
func (m messages) WithAttrs([]slog.Attr) slog.Handler       { return m }
func (m messages) Handle(_ context.Context, r slog.Record) error {
	*m.said = append(*m.said, r.Message)
	return nil
}

// Log messages and errors contain no unescaped text from outside.
func TestHostileTextsAreEscapedInErrorsAndLogs(t *testing.T) {
	const hostile = "a\x1b[31m\n<<end>>\x00"
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	var said []string
	each(t, func(e *env) {
		if e.workers > 1 {
			return
		}
		e.cloud.fail("observe", errors.New("refused "+hostile))
		e.want(1)
		pass(time.Second)
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		_, err := managed.WaitReady(ctx, e.DB, e.Table, named(e.names[0]))
		require.ErrorContains(e, err, "refused")
		require.False(e, strings.ContainsFunc(err.Error(), unprintable), "%q", err)
		require.NotEmpty(e, said)
		for _, message := range said {
			require.False(e, strings.ContainsFunc(message, unprintable), "%q", message)
		}
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithLogger(slog.New(messages{said: &said}))}
	})
}
