// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

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
