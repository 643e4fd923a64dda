// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestApplyOfAnUnchangedRowWritesNothing(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.set(func(c *cloud) { c.lateRegion = true })
		e.settle(1, func(b *bucket) { b.SetAnnotation("team", "net") })
		at := e.revision()
		e.want(1, func(b *bucket) { b.SetAnnotation("team", "net") })
		require.Equal(e, at, e.revision())
		e.called()
	}, nil)
}

func TestApplyKeepsTheNotesOfTheReconciler(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, func(b *bucket) { b.SetAnnotation("team", "net") })
		before := e.get(e.names[0])
		e.Stop()
		e.want(2)
		after := e.get(e.names[0])
		require.Equal(e, before.Finalizers, after.Finalizers)
		require.Equal(e, before.Conditions, after.Conditions)
		require.Equal(e, managed.GetExternalName(before), managed.GetExternalName(after))
		require.Equal(e, before.Annotations, after.Annotations)
		require.EqualValues(e, 2, after.Generation)
		require.Equal(e, reconciler.StatusKindPending, after.Status.Kind)
		require.Equal(e, 1, before.Size)
		require.Contains(e, before.Annotations, "team")
	}, nil)
}

func TestGenerationGrowsOnlyWithTheDesiredState(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.want(1, func(b *bucket) { b.SetAnnotation("team", "net") })
		e.called("connect", "observe")
		e.rows(func(b *bucket) { require.EqualValues(e, 1, b.Generation) })
		e.want(1, func(b *bucket) { b.Region = "south" })
		e.rows(func(b *bucket) { require.EqualValues(e, 2, b.Generation) })
	}, nil)
}

func TestApplyOfADeletedRowReturnsErrTerminating(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) { c.sticky = true })
		e.remove()
		e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
		at := e.revision()
		e.remove()
		require.Equal(e, at, e.revision(), "a second request writes nothing")
		e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
			changed, err := w.Apply(wtxn, named(name), asItIs)
			require.ErrorIs(e, err, managed.ErrTerminating)
			require.ErrorContains(e, err, name)
			require.False(e, changed)
		})
		require.Equal(e, at, e.revision())
		e.cloud.set(func(c *cloud) { c.sticky = false })
		pass(time.Minute)
		e.gone()
		e.want(2)
		pass(time.Second)
		e.holds(2)
	}, noGrace)
}

func TestEditAndDeleteReportMissingRows(t *testing.T) {
	each(t, func(e *env) {
		e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
			found, err := w.Delete(wtxn, named(name))
			require.NoError(e, err)
			require.False(e, found)
			found, err = w.Edit(wtxn, named(name), func(*bucket) { e.Error("called") })
			require.NoError(e, err)
			require.False(e, found)
		})
	}, nil)
}

func TestRowThatCannotBeWrittenIsNamedInTheError(t *testing.T) {
	each(t, func(e *env) {
		w := e.writer()
		w.Table = &failing{RWTable: e.Table, left: 1}
		wtxn := e.DB.WriteTxn(e.Table)
		defer wtxn.Abort()
		_, err := w.Apply(wtxn, named("x"), asItIs)
		require.EqualError(e, err, `write "x": no insert`)
	}, nil)
}
