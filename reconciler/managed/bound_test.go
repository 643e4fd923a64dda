// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// A condition cuts its message, even if a program sets it.
func TestLongConditionMessagesAreCut(t *testing.T) {
	long := strings.Repeat("é", 1<<19)
	each(t, func(e *env) {
		e.cloud.fail("observe", errors.New(long))
		e.want(1)
		e.rows(func(b *bucket) {
			require.LessOrEqual(e, len(b.GetCondition(managed.TypeSynced).Message), reconciler.MaxErrorText)
			require.Regexp(e, `^observe: é+\.\.\. \(\d+ bytes left out\)$`, b.GetCondition(managed.TypeSynced).Message)
		})
	}, nil)

	var m managed.Meta
	m.SetConditions(managed.Unavailable().WithMessage(long))
	was := m.GetCondition(managed.TypeReady)
	require.LessOrEqual(t, len(was.Message), reconciler.MaxErrorText)
	m.SetConditions(managed.Unavailable().WithMessage(long))
	require.Equal(t, was, m.GetCondition(managed.TypeReady), "the same message does not count as a change")
}
