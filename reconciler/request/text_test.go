// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// hostile is a text that would corrupt a terminal and the output of hive's shell.
const hostile = "a\x1b[31m\n<<end>>\x00"

func printable(t testing.TB, text string) {
	t.Helper()
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", text)
}

// db/show prints the tables of requests and of outcomes: they must not contain unescaped text from outside.
func TestHostileTextsAreEscapedInTheTables(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(context.Context, request.Request) (request.Result, error) {
			return request.Result{}, errors.New("refused " + hostile)
		})
		e.put(hostile, 1)
		require.Len(e, e.took(), 1)
		for row := range e.controller.Table().All(e.db.ReadTxn()) {
			printable(e, strings.Join(row.TableRow(), ""))
		}
		shown := ""
		for row := range e.controller.Loop().Outcomes().All(e.db.ReadTxn()) {
			shown += strings.Join(row.TableRow(), "")
		}
		require.Contains(e, shown, "refused")
		printable(e, shown)
	}, nil)
}

// The text of a panic may have any length and any bytes.
func TestPanicTextsOfSourcesAreCutAndPrintable(t *testing.T) {
	health, reported := cell.NewSimpleHealth()
	inBubble(t, func(e *env) {
		e.put("web", 1)
		synctest.Wait()
		following := reported.GetChild("for-apps")
		require.NotNil(e, following)
		require.ErrorContains(e, following.Error, `panic: \x1b[2Jxxx`)
		require.Less(e, len(following.Error.Error()), reconciler.MaxErrorText+200)
		require.Contains(e, e.log.String(), "function of a source panicked")
		require.Less(e, len(e.log.String()), 4*reconciler.MaxErrorText)
		require.NotContains(e, e.log.String(), "\x1b")
	}, func(e *env, cfg *config) {
		cfg.Health = health
		cfg.Sources = from{request.For(e.apps, (*app).request, func(request.Change[*app]) bool {
			panic("\x1b[2J" + strings.Repeat("x", 1<<20))
		})}
	})
}

// The logger names the request, also if the program derives another context.
func TestTheLoggerNamesTheRequest(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(ctx context.Context, _ request.Request) (request.Result, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			request.Logger(ctx).InfoContext(ctx, "reconciling")
			return request.Result{}, ctx.Err()
		})
		e.put("web", 1)
		e.took()
		require.Contains(e, e.log.String(), `msg=reconciling controller=shops request=shop/web`)
	}, func(_ *env, cfg *config) { cfg.Name = "shops" })
	require.Same(t, slog.Default(), request.Logger(t.Context()), "outside of Reconcile")
}
