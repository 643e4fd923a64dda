// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// A short text may be a slice of a long one. Keeping the short text must not keep the long one in
// memory.
func TestKeptTextDoesNotPinTheLongOne(t *testing.T) {
	for _, kind := range []string{"error", "note", "reason", "class"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.mu.Lock()
				e.target.before = func(ctx context.Context, c call) {
					if kind == "note" {
						reconciler.Note(ctx, (fmt.Sprint("note of ", c.id) + strings.Repeat("n", 1<<20))[:20])
					}
				}
				e.target.mu.Unlock()
				e.target.deciding(func(c call) error {
					text := (fmt.Sprintf("%030d", c.id) + strings.Repeat("n", 1<<20))[:30]
					if kind == "reason" {
						return reconciler.Blocked(text)
					} else if kind == "note" {
						return nil
					}
					return errors.New(text)
				})
				held()
				before := held()
				e.put(1, ids(1, 100)...)
				e.pass(time.Second)
				e.target.take()
				after := held()
				require.Less(e, after, before+10<<20)
				e.target.deciding(nil)
				e.pass(time.Hour)
			}, func(e *env, cfg *reconciler.Config[*object]) {
				cfg.Log = nil
				if kind == "class" {
					cfg.ErrorClass = func(err error) string { return (err.Error() + strings.Repeat("n", 1<<20))[:30] }
				}
			}, reconciler.WithoutPruning())
		})
	}
}
