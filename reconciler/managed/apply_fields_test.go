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

func TestApplyOfAnUnchangedRowCausesNoOutsideCall(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, func(b *bucket) { b.SetAnnotation("team", "net") })
		calls := 0
		for range 600 {
			e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
				b := named(name)
				b.Size = 1
				b.SetAnnotation("team", "net")
				_, err := managed.NewWriter(e.config()).Apply(wtxn, b)
				require.NoError(e, err)
			})
			pass(90 * time.Millisecond)
			calls += len(e.cloud.take(e.names[0]))
		}
		// One poll per minute, which connects and observes.
		require.LessOrEqual(e, calls, 4)
	}, nil)
}

// inner is an embedded struct: its fields are fields of the row.
type inner struct {
	Deep   int
	hidden int
}

// wide is a row with fields of all kinds.
type wide struct {
	managed.Meta
	inner
	Text     string
	Flag     bool
	Pointer  *int
	List     []string
	Labels   map[string]string
	ByNumber map[int][]string
	Pair     struct{ A, B int }
	At       time.Time
	Any      any
	secret   string
	Status   reconciler.Status
	Other    reconciler.Status
	All      reconciler.StatusSet
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
		GetStatus: func(w *wide) reconciler.Status { return w.Status },
	})}
}

// write calls f with a row that has only a name, in a transaction, and returns the row of the table.
func (a *applied) write(f func(wtxn statedb.WriteTxn, w *wide)) *wide {
	a.Helper()
	wtxn := a.db.WriteTxn(a.writer.Table)
	f(wtxn, &wide{Meta: managed.Meta{Meta: object.Meta{Name: "a"}}})
	defer wtxn.Commit()
	return a.row(wtxn)
}

// row returns the row of the table.
func (a *applied) row(txn statedb.ReadTxn) *wide {
	query, ok := a.writer.Table.PrimaryIndexer().QueryFromObject(&wide{Meta: managed.Meta{Meta: object.Meta{Name: "a"}}})
	require.True(a, ok)
	row, _, _ := a.writer.Table.Get(txn, query)
	return row
}

// apply applies a row, requires whether a pass is requested, and returns the row of the table.
func (a *applied) apply(changes bool, set func(w *wide)) *wide {
	a.Helper()
	return a.write(func(wtxn statedb.WriteTxn, w *wide) {
		set(w)
		changed, err := a.writer.Apply(wtxn, w)
		require.NoError(a, err)
		require.Equal(a, changes, changed)
	})
}

// edit changes the row as another writer does, and makes it Done.
func (a *applied) edit(change func(w *wide)) *wide {
	a.Helper()
	return a.write(func(wtxn statedb.WriteTxn, w *wide) {
		next := a.row(wtxn).Clone()
		change(next)
		_, _, err := a.writer.Table.Insert(wtxn, next.SetStatus(reconciler.StatusDone()))
		require.NoError(a, err)
	})
}

func nothingSet(*wide) {}

func TestApplyTakesBackOnlyWhatItSet(t *testing.T) {
	n, zero := 7, 0
	for name, field := range map[string]struct {
		set, other func(w *wide)
		get        func(w *wide) any
	}{
		"text":     {func(w *wide) { w.Text = "x" }, func(w *wide) { w.Text = "y" }, func(w *wide) any { return w.Text }},
		"flag":     {func(w *wide) { w.Flag = true }, nil, func(w *wide) any { return w.Flag }},
		"pointer":  {func(w *wide) { w.Pointer = &n }, func(w *wide) { w.Pointer = &zero }, func(w *wide) any { return w.Pointer }},
		"list":     {func(w *wide) { w.List = []string{"x"} }, func(w *wide) { w.List = []string{} }, func(w *wide) any { return w.List }},
		"struct":   {func(w *wide) { w.Pair.A = 1 }, func(w *wide) { w.Pair.B = 1 }, func(w *wide) any { return w.Pair }},
		"time":     {func(w *wide) { w.At = time.Unix(1, 0) }, func(w *wide) { w.At = time.Unix(2, 0) }, func(w *wide) any { return w.At }},
		"any":      {func(w *wide) { w.Any = 0 }, func(w *wide) { w.Any = "" }, func(w *wide) any { return w.Any }},
		"embedded": {func(w *wide) { w.Deep = 1 }, func(w *wide) { w.Deep = 2 }, func(w *wide) any { return w.Deep }},
		"labels":   {func(w *wide) { w.Labels = map[string]string{"x": "1"} }, func(w *wide) { w.Labels = map[string]string{"x": "2"} }, func(w *wide) any { return w.Labels }},
		"by number": {func(w *wide) { w.ByNumber = map[int][]string{1: {"x"}} },
			func(w *wide) { w.ByNumber = map[int][]string{1: nil} }, func(w *wide) any { return w.ByNumber }},
		"annotations": {func(w *wide) { w.SetAnnotation("x", "1") }, func(w *wide) { w.SetAnnotation("x", "2") }, func(w *wide) any { return w.Annotations }},
		"policies":    {func(w *wide) { w.DeletionPolicy = managed.DeletionOrphan }, nil, func(w *wide) any { return w.DeletionPolicy }},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApplied(t)
			unset, wanted := &wide{}, &wide{}
			field.set(wanted)
			a.apply(true, nothingSet)
			require.Equal(t, field.get(unset), field.get(a.apply(false, nothingSet)))
			a.edit(field.set)
			require.Equal(t, field.get(wanted), field.get(a.apply(false, nothingSet)), "set by another writer")
			a.apply(false, field.set)
			row := a.apply(true, nothingSet)
			require.Equal(t, field.get(unset), field.get(row), "applied before, so taken back")
			require.Equal(t, reconciler.StatusKindPending, row.Status.Kind)
			if field.other == nil {
				return
			}
			a.apply(true, field.set)
			a.edit(field.other)
			row = a.apply(true, field.set)
			require.Equal(t, field.get(wanted), field.get(row), "Apply overrides another writer")
			a.apply(true, field.other)
			a.apply(false, field.other)
		})
	}
}

func TestApplyComparesMapsByKey(t *testing.T) {
	a := newApplied(t)
	a.apply(true, func(w *wide) { w.Labels = map[string]string{"x": "1", "y": "1"} })
	old := a.edit(func(w *wide) { w.Labels = map[string]string{"x": "1", "y": "1", "z": "others"} })
	row := a.apply(true, func(w *wide) { w.Labels = map[string]string{"y": "2"} })
	require.Equal(t, map[string]string{"y": "2", "z": "others"}, row.Labels)
	require.Equal(t, map[string]string{"x": "1", "y": "1", "z": "others"}, old.Labels, "rows are immutable")
	require.EqualValues(t, 2, row.Generation)
	row = a.apply(true, nothingSet)
	require.Equal(t, map[string]string{"z": "others"}, row.Labels)
}

func TestApplyDetectsAMapChangedInPlace(t *testing.T) {
	a := newApplied(t)
	labels := map[string]string{"x": "1", "y": "1"}
	set := func(w *wide) { w.Labels, w.Annotations = labels, labels }
	row := a.apply(true, set)
	delete(labels, "y")
	require.Len(t, row.Labels, 2, "the row does not share the map")
	require.Len(t, row.Annotations, 2)
	row = a.apply(true, set)
	require.Equal(t, map[string]string{"x": "1"}, row.Labels)
	require.Equal(t, map[string]string{"x": "1"}, row.Annotations)
}

func TestApplyLeavesUnexportedFieldsAndStatusesAlone(t *testing.T) {
	a := newApplied(t)
	a.apply(true, func(w *wide) {
		w.secret, w.hidden, w.Text, w.Other = "new", 1, "x", reconciler.StatusPending()
		w.All = reconciler.NewStatusSet().Pending("one")
	})
	before := a.edit(func(w *wide) {
		require.Equal(t, "new", w.secret, "a new row is inserted whole")
		w.secret, w.hidden, w.Other = "row's", 2, reconciler.StatusDone()
		w.All = w.All.Set("one", reconciler.StatusDone())
	})
	same := func(w *wide) {
		w.secret, w.hidden, w.Text = "program's", 3, "x"
		w.Status, w.Other, w.All = reconciler.StatusPending(), reconciler.StatusPending(), reconciler.NewStatusSet().Pending("one")
	}
	require.Same(t, before, a.apply(false, same))
	row := a.apply(true, func(w *wide) {
		same(w)
		w.Text = "y"
	})
	require.Equal(t, "row's", row.secret)
	require.Equal(t, 2, row.hidden)
	require.Equal(t, reconciler.StatusKindPending, row.Status.Kind)
	require.Equal(t, reconciler.StatusKindPending, row.Other.Kind, "other reconcilers must process the change")
	require.Equal(t, reconciler.StatusKindPending, row.All.Get("one").Kind)
}

func TestApplyKeepsNotesThatTheProgramSetBefore(t *testing.T) {
	a := newApplied(t)
	named := func(name string) func(w *wide) {
		return func(w *wide) { managed.SetExternalName(w, name) }
	}
	a.apply(true, named("wish"))
	a.edit(named("chosen"))
	require.Equal(t, "chosen", managed.GetExternalName(a.apply(false, named("wish"))))
	require.Equal(t, "chosen", managed.GetExternalName(a.apply(false, nothingSet)), "leaving it out does not remove it")
	require.Equal(t, "another", managed.GetExternalName(a.apply(true, named("another"))))
}

func TestApplyOfAnObjectWithoutAKeyIsAnError(t *testing.T) {
	a := newApplied(t)
	wtxn := a.db.WriteTxn(a.writer.Table)
	defer wtxn.Abort()
	keyless := &wide{Meta: managed.Meta{Meta: object.Meta{Name: "keyless"}}}
	_, err := a.writer.Apply(wtxn, keyless)
	require.ErrorContains(t, err, `write "keyless": the primary index makes no key of the object`)
	found, err := a.writer.Delete(wtxn, keyless)
	require.NoError(t, err)
	require.False(t, found)
	_, err = a.writer.Apply(wtxn, &wide{})
	require.NoError(t, err, "an empty key is a key")
	require.Equal(t, 1, a.writer.Table.NumObjects(wtxn))
}
