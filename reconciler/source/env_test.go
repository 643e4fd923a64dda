// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source_test

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is an object with an owner, and with a status: the number of times that a loop has written it.
type row struct {
	Key, Owner string
	Value      int
	Status     int
}

func (*row) TableHeader() []string { return []string{"Key", "Owner", "Value", "Status"} }
func (r *row) TableRow() []string {
	return []string{r.Key, r.Owner, strconv.Itoa(r.Value), strconv.Itoa(r.Status)}
}

func ownerOf(r *row) string { return r.Owner }

// sameWish and mergeStatus are Same and Merge of rows with a status.
func sameWish(r, obj *row) bool { return r.Owner == obj.Owner && r.Value == obj.Value }
func mergeStatus(r, obj *row) *row {
	merged := *obj
	merged.Status = r.Status
	return &merged
}

var byKey = statedb.Index[*row, string]{
	Name: "key",
	FromObject: func(r *row) index.KeySet {
		if r.Key == "keyless" {
			return index.EmptyKeySet
		}
		return index.NewKeySet(index.String(r.Key))
	},
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// spy is the metrics of a database. It sees the transactions of the goroutine that runs the test, and
// calls functions between and in them.
type spy struct {
	statedb.Metrics
	// committed is called after each transaction of the table, without a lock; may be nil.
	committed func()
	// committing is called in each commit that locks the table; may be nil.
	committing func()
	// indexed is called with the rows that are written, with the lock; may be nil.
	indexed func(*row)

	// locked is the number of open transactions. holds are how long each transaction of the table held
	// its lock; inputs is the number of transactions of the table of inputs.
	locked int
	holds  []time.Duration
	inputs int
}

func (s *spy) WriteTxnTotalAcquisition(string, []string, time.Duration) { s.locked++ }
func (s *spy) ObjectCount(table string, _ int) {
	if table == "rows" && s.committing != nil {
		s.committing()
	}
}
func (s *spy) WriteTxnDuration(_ string, tables []string, hold time.Duration) {
	s.locked--
	if slices.Contains(tables, "rows-inputs") {
		s.inputs++
	}
	if !slices.Contains(tables, "rows") {
		return
	}
	s.holds = append(s.holds, hold)
	if s.committed != nil {
		s.committed()
	}
}

// env is a database with a table of rows, in a bubble with fake time.
type env struct {
	*testing.T
	db     *statedb.DB
	table  statedb.RWTable[*row]
	inputs *inputs.Table
	spy    *spy
	health *reconcilertest.Health
}

func run(t *testing.T, test func(e *env)) {
	synctest.Test(t, func(t *testing.T) { test(newEnv(t, &spy{Metrics: statedb.NewExpVarMetrics(false)})) })
}

// newEnv returns an env. Without a spy several goroutines may write to the table.
func newEnv(t *testing.T, spied *spy) *env {
	e := &env{T: t, spy: &spy{}, health: &reconcilertest.Health{}}
	var options []statedb.Option
	if spied != nil {
		e.spy = spied
		options = append(options, statedb.WithMetrics(spied))
	}
	e.db = statedb.New(options...)
	var err error
	e.table, err = statedb.NewTable(e.db, "rows", byKey, statedb.Index[*row, string]{
		Name: "spy", FromKey: index.String,
		FromObject: func(r *row) index.KeySet {
			if e.spy.indexed != nil {
				e.spy.indexed(r)
			}
			return index.NewKeySet(index.String(r.Owner))
		},
	})
	require.NoError(t, err)
	e.inputs, err = inputs.Open(e.db, "rows")
	require.NoError(t, err)
	return e
}

// sink returns a sink of a table whose rows have owners, unless change removes Owner.
func (e *env) sink(name string, change func(*source.Config[*row])) *source.Sink[*row] {
	e.Helper()
	cfg := source.Config[*row]{Name: name, DB: e.db, Table: e.table, Owner: ownerOf, Health: e.health}
	if change != nil {
		change(&cfg)
	}
	s, err := source.New(cfg)
	require.NoError(e, err)
	e.Cleanup(s.Close)
	e.spy.holds, e.spy.inputs = nil, 0
	return s
}

// replace calls Replace, which must change so many rows without an error.
func (e *env) replace(s *source.Sink[*row], changed int, at uint64, list ...*row) {
	e.Helper()
	n, err := s.Replace(e.Context(), list, at)
	require.NoError(e, err)
	require.Equal(e, changed, n)
}

func (e *env) apply(s *source.Sink[*row], changed int, at uint64, changes ...source.Change[*row]) {
	e.Helper()
	n, err := s.Apply(e.Context(), changes, at)
	require.NoError(e, err)
	require.Equal(e, changed, n)
}

func put(r *row) source.Change[*row] { return source.Change[*row]{Object: r} }
func remove(key string) source.Change[*row] {
	return source.Change[*row]{Object: &row{Key: key}, Deleted: true}
}

// rows returns the rows, by key.
func (e *env) rows() (rows []row) {
	for r := range e.table.All(e.db.ReadTxn()) {
		rows = append(rows, *r)
	}
	return rows
}

func (e *env) get(key string) *row {
	r, _, _ := e.table.Get(e.db.ReadTxn(), byKey.Query(key))
	return r
}

func (e *env) revision() statedb.Revision { return e.table.Revision(e.db.ReadTxn()) }

func (e *env) initialized() bool {
	is, _ := e.table.Initialized(e.db.ReadTxn())
	return is
}

// write writes rows without a sink.
func (e *env) write(rows ...*row) { harness.Insert(e, e.db, e.table, rows...) }

// input returns the row of a source in the table of inputs.
func (e *env) input(name string) *inputs.Input {
	in, found := e.inputs.Get(e.db.ReadTxn(), name)
	require.True(e, found)
	return in
}

// many returns rows of an owner.
func many(n int, owner string) (list []*row) {
	for i := range n {
		list = append(list, &row{Key: "k" + strconv.Itoa(1000000+i), Owner: owner, Value: i})
	}
	return list
}
