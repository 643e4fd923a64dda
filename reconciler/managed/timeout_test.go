// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/reconciler/managed"
)

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
