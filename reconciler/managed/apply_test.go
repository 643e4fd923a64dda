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
	"github.com/statekeel/statekeel/reconciler/object"
)

func TestApplyKeepsTheNotesOfTheReconciler(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, func(b *bucket) { b.SetAnnotation("team", "net") })
		before := e.get(e.names[0])
		e.Stop()
		e.want(2, func(b *bucket) { b.Annotations = map[string]string{"team": "net"} })
		after := e.get(e.names[0])
		require.Equal(e, before.Finalizers, after.Finalizers)
		require.Equal(e, before.Conditions, after.Conditions)
		require.Equal(e, before.Annotations, after.Annotations)
		require.NotEmpty(e, managed.GetExternalName(after))
		require.EqualValues(e, 2, after.Generation)
		require.Equal(e, reconciler.StatusKindPending, after.Status.Kind)
		require.Equal(e, 1, before.Size)
	})
}

func TestApplyOfADeletedRowReturnsErrTerminating(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.sticky(true)
		e.remove()
		e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
		at := e.revision()
		e.remove()
		require.Equal(e, at, e.revision(), "a second request writes nothing")
		e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
			changed, err := w.Apply(wtxn, named(name), func(*bucket) {})
			require.ErrorIs(e, err, managed.ErrTerminating)
			require.ErrorContains(e, err, name)
			require.False(e, changed)
		})
		require.Equal(e, at, e.revision())
		e.sticky(false)
		pass(time.Minute)
		e.gone(-1)
		e.want(2)
		pass(time.Second)
		e.holds(2)
	}, noGrace)
}

func TestWriterReportsRowsThatItCannotWrite(t *testing.T) {
	e := newEnv(t, 1)
	w := e.writer()
	wtxn := e.DB.WriteTxn(e.Table)
	defer wtxn.Abort()
	for _, missing := range []string{"a", "keyless"} {
		found, err := w.Delete(wtxn, named(missing))
		require.NoError(t, err)
		require.False(t, found)
		found, err = w.Edit(wtxn, named(missing), func(*bucket) { t.Error("called") })
		require.NoError(t, err)
		require.False(t, found)
	}
	_, err := w.Apply(wtxn, named("keyless"), func(*bucket) {})
	require.ErrorContains(t, err, `write "keyless": the primary index makes no key of the object`)
	_, err = w.Apply(wtxn, &bucket{}, func(*bucket) {})
	require.NoError(t, err, "an empty key is a key")
	require.Equal(t, 1, e.Table.NumObjects(wtxn))

	w.Table = &failing{RWTable: e.Table, left: 1}
	_, err = w.Apply(wtxn, named("x"), func(*bucket) {})
	require.EqualError(t, err, `write "x": no insert`)
}

// apply applies a row, requires whether a pass is requested, and returns the row of the table.
func TestAWriterNamesItsMissingFields(t *testing.T) {
	e := newEnv(t, 1)
	cfg := e.config()
	cfg.Table, cfg.Clone, cfg.SetStatus = nil, nil, nil
	const missing = "managed: Writer.Table is nil: it has to be a statedb.RWTable\nWriter.Clone is nil\nWriter.SetStatus is nil"
	w := managed.NewWriter(cfg)
	_, err := w.Apply(nil, named("a"), nil)
	require.EqualError(t, err, missing)
	_, err = w.Edit(nil, named("a"), nil)
	require.EqualError(t, err, missing)
	_, err = w.Delete(nil, named("a"))
	require.EqualError(t, err, missing)
}

func (e *env) apply(w managed.Writer[*bucket], changes bool, set func(b *bucket)) *bucket {
	e.Helper()
	e.Write(func(wtxn statedb.WriteTxn) {
		changed, err := w.Apply(wtxn, named("a"), set)
		require.NoError(e, err)
		require.Equal(e, changes, changed)
	})
	return e.get("a")
}

func TestApplyWritesWhatTheFunctionChanges(t *testing.T) {
	e := newEnv(t, 1)
	w := e.writer()
	region := func(region string) func(b *bucket) { return func(b *bucket) { b.Region = region } }
	row := e.apply(w, true, region("x"))
	require.EqualValues(t, 1, row.Generation)
	require.Same(t, row, e.apply(w, false, region("x")))
	row = e.apply(w, true, func(b *bucket) { b.Tags = map[string]string{"a": "1"} })
	require.Equal(t, "x", row.Region, "what the function does not set stays")
	require.EqualValues(t, 2, row.Generation)
	row = e.apply(w, true, region(""))
	require.Empty(t, row.Region, "a field can be set to zero")
	require.EqualValues(t, 3, row.Generation)
	row = e.apply(w, true, func(b *bucket) { b.SetAnnotation("team", "net") })
	require.EqualValues(t, 3, row.Generation, "annotations are not the desired state of the resource")
	row = e.apply(w, true, func(b *bucket) { b.DeletionPolicy = managed.DeletionOrphan })
	require.EqualValues(t, 4, row.Generation)
	require.Equal(t, "net", row.Annotations["team"])

	obj := &bucket{Meta: managed.Meta{Meta: object.Meta{Name: "b", Annotations: map[string]string{"team": "net"}}}}
	e.Write(func(wtxn statedb.WriteTxn) {
		_, err := w.Apply(wtxn, obj, func(*bucket) {})
		require.NoError(t, err)
	})
	obj.Annotations["team"] = "ops"
	require.Equal(t, "net", e.get("b").Annotations["team"], "the program keeps its map")

	w.Pending = func(b *bucket) *bucket {
		b.All = b.All.Pending()
		return b
	}
	e.apply(w, true, func(b *bucket) { b.All = reconciler.NewStatusSet().Pending("one") })
	row = e.apply(w, true, func(b *bucket) { b.All = b.All.Set("one", reconciler.StatusDone()) })
	require.Equal(t, reconciler.StatusKindPending, row.All.Get("one").Kind, "all reconcilers of the row are asked")
	require.Equal(t, reconciler.StatusKindPending, row.Status.Kind)
}
