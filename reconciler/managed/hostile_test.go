// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

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
