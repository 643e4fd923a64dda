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

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestFailingStepSetsConditionRecordsEventAndBacksOff(t *testing.T) {
	type failing struct{ op, event string }
	table(t, map[string]failing{
		"connect": {"connect", "Warning CannotConnectToProvider"},
		"observe": {"observe", "Warning CannotObserveExternalResource"},
		"update":  {"update", "Warning CannotUpdateExternalResource"},
	}, func(e *env, tt failing) {
		e.settle(1)
		e.cloud.fail(tt.op, errRefused)
		e.want(2)
		e.told(tt.event)
		e.is("ReconcileError", "Available")
		e.rows(func(b *bucket) {
			require.Equal(e, tt.op+": quota", b.GetCondition(managed.TypeSynced).Message)
			require.Equal(e, tt.op+": quota", b.Status.GetError())
		})
		at := e.revision()
		pass(time.Second)
		e.told(tt.event)
		pass(2 * time.Second)
		e.told(tt.event)
		require.Equal(e, at, e.revision(), "the same failure is not written again")
		e.cloud.fail(tt.op, nil)
		pass(4 * time.Second)
		e.is("ReconcileSuccess", "Available")
		e.holds(2)
	})
}

func TestClientDecidesWhenAFailureIsRetried(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.fail("create", reconciler.RetryAfter(errRefused, 17*time.Second))
		e.want(1)
		e.called("connect", "observe", "create")
		pass(16 * time.Second)
		e.called()
		e.cloud.fail("create", reconciler.TerminalError(errRefused))
		pass(time.Second)
		e.called("connect", "observe", "create")
		pass(time.Hour)
		e.called()
		e.is("ReconcileError", "Creating")
	})
}

// connects returns an option with a connecter that calls disconnect at the end of each pass, for the client or itself.
func connects(client bool, disconnect func(ctx context.Context) error) func(e *env) any {
	return func(e *env) any {
		fns := managed.ExternalConnectDisconnecterFns[*bucket]{ConnectFn: e.cloud.Connect, DisconnectFn: disconnect}
		if client {
			fns.DisconnectFn = nil
			fns.ConnectFn = func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) {
				return session{e.cloud, disconnect}, nil
			}
		}
		return managed.WithExternalConnectDisconnecter[*bucket](fns)
	}
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
				}, connects(client, disconnect))
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
	}, func(e *env) any {
		e.cloud.before("connect", func(context.Context, *bucket) error { open.Add(1); return nil })
		return connects(false, func(ctx context.Context) error { open.Add(-1); return ctx.Err() })
	})
}

func TestConnecterThatReturnsNilIsAnError(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.rows(func(b *bucket) { require.Equal(e, "connect: the connecter returned no client", b.Status.GetError()) })
	}, managed.WithExternalConnecter(managed.ExternalConnectorFn[*bucket](
		func(context.Context, *bucket) (managed.ExternalClient[*bucket], error) { return nil, nil })))
}

func TestPanicInObserveKeepsTheConditions(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.before("observe", func(context.Context, *bucket) error { panic("nil map") })
		pass(time.Minute)
		e.status(reconciler.StatusKindError)
		e.rows(func(b *bucket) { require.True(e, managed.IsReady(b)) })
		e.cloud.fail("observe", nil)
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")
	})
}

func TestStepsOfAPassAreInItsNoteAndInTheLog(t *testing.T) {
	log := &testlog.Buffer{}
	each(t, func(e *env) {
		e.settle(1)
		e.want(2)
		for _, name := range e.names {
			require.Contains(e, fmt.Sprint(e.Loop.Explain(e.Context(), name)), "observe: differs; size 1, want 2; updated")
		}
		require.Contains(e, log.String(), `msg="the external resource differs" table=buckets object=b00 diff="size 1, want 2"`)
		require.Contains(e, log.String(), "reason=CreatedExternalResource")
	}, managed.WithLogger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
}

// Log messages and errors contain no unescaped text from outside.
func TestHostileTextsAreEscapedInErrorsAndLogs(t *testing.T) {
	log := &testlog.Buffer{}
	messages := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey {
			return a
		}
		return slog.Attr{}
	}}
	each(t, func(e *env) {
		e.cloud.fail("observe", errors.New("refused a\x1b[31m\n<<end>>\x00"))
		e.want(1)
		_, err := e.waitReady()
		require.ErrorContains(e, err, "refused")
		require.False(e, strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err)
		require.Contains(e, log.String(), "refused a")
		require.NotContains(e, log.String(), `\u001b`, "JSON for the character")
	}, managed.WithLogger(slog.New(slog.NewJSONHandler(log, messages))))
}
