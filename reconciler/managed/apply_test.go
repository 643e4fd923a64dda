// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
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
		require.Equal(e, managed.GetExternalName(before), managed.GetExternalName(after))
		require.Equal(e, before.Annotations, after.Annotations)
		require.EqualValues(e, 2, after.Generation)
		require.Equal(e, reconciler.StatusKindPending, after.Status.Kind)
		require.Equal(e, 1, before.Size)
		require.Contains(e, before.Annotations, "team")
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

// wide is a row with the statuses of several reconcilers.
type wide struct {
	managed.Meta
	Text   string
	Labels map[string]string
	Status reconciler.Status
	All    reconciler.StatusSet
}

func (w *wide) Clone() *wide                        { c := *w; return &c }
func (w *wide) SetStatus(s reconciler.Status) *wide { c := *w; c.Status = s; return &c }
func (w *wide) TableHeader() []string               { return []string{"Name"} }
func (w *wide) TableRow() []string                  { return []string{w.Name} }

// applied is a table with a writer and without a loop.
type applied struct {
	*testing.T
	db     *statedb.DB
	writer managed.Writer[*wide]
}

func newApplied(t *testing.T) *applied {
	db := statedb.New()
	table, err := statedb.NewTable(db, "wide", statedb.Index[*wide, string]{
		Name: "name", Unique: true, FromKey: index.String, FromString: index.FromString,
		FromObject: func(w *wide) index.KeySet {
			if w.Name == "keyless" {
				return index.EmptyKeySet
			}
			return index.NewKeySet(index.String(w.Name))
		},
	})
	require.NoError(t, err)
	return &applied{t, db, managed.NewWriter(reconciler.Config[*wide]{
		Table: table, Clone: (*wide).Clone, SetStatus: (*wide).SetStatus,
	})}
}

// apply applies a row, requires whether a pass is requested, and returns the row of the table.
func (a *applied) apply(changes bool, set func(w *wide)) *wide {
	a.Helper()
	wtxn := a.db.WriteTxn(a.writer.Table)
	defer wtxn.Commit()
	obj := &wide{Meta: managed.Meta{Meta: object.Meta{Name: "a"}}}
	changed, err := a.writer.Apply(wtxn, obj, set)
	require.NoError(a, err)
	require.Equal(a, changes, changed)
	query, ok := a.writer.Table.PrimaryIndexer().QueryFromObject(obj)
	require.True(a, ok)
	row, _, _ := a.writer.Table.Get(wtxn, query)
	return row
}

func TestApplyWritesWhatTheFunctionChanges(t *testing.T) {
	a := newApplied(t)
	text := func(text string) func(w *wide) { return func(w *wide) { w.Text = text } }
	row := a.apply(true, text("x"))
	require.EqualValues(t, 1, row.Generation)
	require.Same(t, row, a.apply(false, text("x")))
	row = a.apply(true, func(w *wide) { w.Labels = map[string]string{"a": "1"} })
	require.Equal(t, "x", row.Text, "what the function does not set stays")
	require.EqualValues(t, 2, row.Generation)
	row = a.apply(true, text(""))
	require.Empty(t, row.Text, "a field can be set to zero")
	require.EqualValues(t, 3, row.Generation)
	row = a.apply(true, func(w *wide) { w.SetAnnotation("team", "net") })
	require.EqualValues(t, 3, row.Generation, "annotations are not the desired state of the resource")
	row = a.apply(true, func(w *wide) { w.DeletionPolicy = managed.DeletionOrphan })
	require.EqualValues(t, 4, row.Generation)
	require.Equal(t, "net", row.Annotations["team"])
}

func TestApplyOfANewRowSharesNoMapWithTheProgram(t *testing.T) {
	a := newApplied(t)
	obj := &wide{Meta: managed.Meta{Meta: object.Meta{Name: "a", Annotations: map[string]string{"team": "net"}}}}
	wtxn := a.db.WriteTxn(a.writer.Table)
	_, err := a.writer.Apply(wtxn, obj, func(*wide) {})
	require.NoError(t, err)
	wtxn.Commit()
	obj.Annotations["team"] = "ops"
	require.Equal(t, "net", a.apply(false, func(*wide) {}).Annotations["team"])
}

func TestWritesAskAllReconcilersOfTheRow(t *testing.T) {
	a := newApplied(t)
	a.writer.Pending = func(w *wide) *wide {
		w.All = w.All.Pending()
		return w
	}
	a.apply(true, func(w *wide) { w.All = reconciler.NewStatusSet().Pending("one") })
	row := a.apply(true, func(w *wide) { w.All = w.All.Set("one", reconciler.StatusDone()) })
	require.Equal(t, reconciler.StatusKindPending, row.All.Get("one").Kind)
	require.Equal(t, reconciler.StatusKindPending, row.Status.Kind)
}

func TestApplyOfAnObjectWithoutAKeyIsAnError(t *testing.T) {
	a := newApplied(t)
	wtxn := a.db.WriteTxn(a.writer.Table)
	defer wtxn.Abort()
	keyless := &wide{Meta: managed.Meta{Meta: object.Meta{Name: "keyless"}}}
	_, err := a.writer.Apply(wtxn, keyless, func(*wide) {})
	require.ErrorContains(t, err, `write "keyless": the primary index makes no key of the object`)
	found, err := a.writer.Delete(wtxn, keyless)
	require.NoError(t, err)
	require.False(t, found)
	_, err = a.writer.Apply(wtxn, &wide{}, func(*wide) {})
	require.NoError(t, err, "an empty key is a key")
	require.Equal(t, 1, a.writer.Table.NumObjects(wtxn))
}
