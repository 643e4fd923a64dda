// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"

	"github.com/stretchr/testify/require"

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

// The reason of a Blocked request must not contain an unescaped name from outside.
func TestHostileTextsAreEscapedInBlockedReasons(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		synctest.Wait()
		status := e.rows()["shop/web"]
		require.Contains(e, status, "is initialised by")
		printable(e, status)
	}, func(e *env, cfg *config) {
		wtxn := e.db.WriteTxn(e.apps)
		e.apps.RegisterInitializer(wtxn, hostile)
		wtxn.Commit()
	})
}
