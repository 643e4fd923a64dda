// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestTransitionTimeChangesWithStatusReasonOrMessage(t *testing.T) {
	old := managed.Available()
	old.LastTransitionTime = time.Unix(1, 0)
	for _, test := range []struct {
		name  string
		next  managed.Condition
		moves bool
	}{
		{"same", managed.Available(), false},
		{"message", managed.Available().WithMessage("slow"), true},
		{"reason and status", managed.Unavailable(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			row := named("a")
			row.SetConditions(old)
			test.next.ObservedGeneration = 7
			row.SetConditions(test.next)
			is := row.GetCondition(managed.TypeReady)
			require.Equal(t, test.moves, !is.LastTransitionTime.Equal(old.LastTransitionTime))
			require.EqualValues(t, 7, is.ObservedGeneration)
		})
	}
}

func TestRowReadsBackFromJSON(t *testing.T) {
	row := named("a")
	row.SetConditions(managed.Available())
	row.Finalizers = []string{managed.FinalizerName}
	row.DeletionTime = time.Unix(5, 0).UTC()
	row.Generation = 3
	managed.SetExternalName(row, "id")
	text, err := json.Marshal(&row.Meta)
	require.NoError(t, err)
	var back managed.Meta
	require.NoError(t, json.Unmarshal(text, &back))
	back.Conditions[0].LastTransitionTime = row.Conditions[0].LastTransitionTime
	require.Equal(t, row.Meta, back)
	text, err = json.Marshal(&managed.Meta{})
	require.NoError(t, err)
	require.JSONEq(t, "{}", string(text))
}

func TestCreateIsIncompleteUntilItsResultIsRecorded(t *testing.T) {
	at := time.Unix(100, 0)
	row := named("a")
	require.False(t, managed.IsCreateIncomplete(row))
	setCreate(row, "pending", at)
	require.True(t, managed.IsCreateIncomplete(row))
	setCreate(row, "failed", at.Add(-time.Second))
	setCreate(row, "succeeded", at.Add(-time.Second))
	require.True(t, managed.IsCreateIncomplete(row), "the results are of an earlier create")
	setCreate(row, "failed", at)
	require.False(t, managed.IsCreateIncomplete(row))
	require.True(t, createdAt(row, "failed").Equal(at))
	row.SetAnnotation(managed.AnnotationPrefix+"external-create-failed", "once upon a time")
	require.True(t, managed.IsCreateIncomplete(row), "an invalid time is ignored")
	setCreate(row, "succeeded", at.Add(time.Second))
	require.False(t, managed.IsCreateIncomplete(row))
	require.True(t, createdAt(row, "succeeded").After(createdAt(row, "pending")))
	// A clock that was set back does not undo a decision.
	setCreate(row, "pending", time.Now().Add(time.Hour))
	managed.DecideCreate(row, "")
	require.False(t, managed.IsCreateIncomplete(row))
}

func TestLongConditionMessagesAreCut(t *testing.T) {
	long := strings.Repeat("é", 1<<19)
	var m managed.Meta
	m.SetConditions(managed.Unavailable().WithMessage(long))
	was := m.GetCondition(managed.TypeReady)
	require.LessOrEqual(t, len(was.Message), reconciler.MaxErrorText)
	m.SetConditions(managed.Unavailable().WithMessage(long))
	require.Equal(t, was, m.GetCondition(managed.TypeReady), "the same message does not count as a change")
}

func TestWaitReadyWaitsForTheConditionNotForDone(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			b.SetConditions(managed.Unavailable().WithMessage("starting"))
			return nil
		})
		e.want(1)
		pass(time.Second)
		e.status(reconciler.StatusKindDone)
		_, err := e.waitReady()
		require.ErrorIs(e, err, context.DeadlineExceeded)
		e.cloud.then("observe", nil)
		row, err := e.waitReady()
		require.NoError(e, err)
		require.Equal(e, e.names[0], row.Name)
		require.True(e, managed.IsReady(row))
	})
}

func TestWaitReadyFailsForAMissingOrDeletedRow(t *testing.T) {
	each(t, func(e *env) {
		name := e.names[0]
		_, err := e.waitReady()
		require.ErrorIs(e, err, managed.ErrRowGone)
		e.cloud.fail("connect", errRefused)
		e.want(1)
		short, cancel := context.WithCancelCause(e.Context())
		cancel(errDown)
		_, err = managed.WaitReady(short, e.DB, e.Table, named(name))
		require.ErrorIs(e, err, errDown)
		require.ErrorContains(e, err, `"b00" is not ready: Synced is False (ReconcileError: connect: quota)`)

		go func() { _, err = e.waitReady() }()
		synctest.Wait()
		e.remove()
		require.ErrorIs(e, err, managed.ErrTerminating)
		require.ErrorContains(e, err, name)
	})
}

func TestFinalizersAreCopiedBeforeTheyAreChanged(t *testing.T) {
	f := managed.NewFinalizer[*bucket]("x")
	row := named("a")
	row.Finalizers = append(make([]string, 0, 8), "other")
	one, two := row.Clone(), row.Clone()
	require.NoError(t, f.AddFinalizer(t.Context(), one))
	require.NoError(t, f.AddFinalizer(t.Context(), one))
	require.NoError(t, managed.NewFinalizer[*bucket]("y").AddFinalizer(t.Context(), two))
	require.Equal(t, []string{"other", "x"}, one.Finalizers)
	require.Equal(t, []string{"other", "y"}, two.Finalizers)
	require.NoError(t, f.RemoveFinalizer(t.Context(), one.Clone()))
	require.Equal(t, []string{"other", "x"}, one.Finalizers)
}
