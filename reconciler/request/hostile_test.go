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

// db/show prints the table of requests: it must not contain unescaped text from outside.
func TestHostileTextsAreEscapedInTheTable(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(context.Context, request.Request) (request.Result, error) {
			return request.Result{}, errors.New("refused " + hostile)
		})
		e.put(hostile, 1)
		require.Len(e, e.took(), 1)
		for name, status := range e.rows() {
			require.Contains(e, status, "refused")
			printable(e, name+status)
		}
	}, nil)
}

// The reason of a Blocked request must not contain an unescaped name from outside.
func TestHostileTextsAreEscapedInBlockedReasons(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		synctest.Wait()
		for row := range e.controller.Table().All(e.db.ReadTxn()) {
			require.Contains(e, row.Status.GetError(), "is initialised by")
			printable(e, row.Status.GetError())
		}
	}, func(e *env, cfg *config) {
		wtxn := e.db.WriteTxn(e.apps)
		e.apps.RegisterInitializer(wtxn, hostile)
		wtxn.Commit()
	})
}
