// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zone is a row: the records that a name server should have under a name.
type zone struct {
	object.Meta
	Domain  string
	Records []string
	Status  reconciler.Status
	Other   reconciler.Status
}

var _ stateful.Object = (*zone)(nil)

func (z *zone) Clone() *zone                        { c := *z; return &c }
func (z *zone) SetStatus(s reconciler.Status) *zone { z.Status = s; return z }
func (z *zone) GetStatus() reconciler.Status        { return z.Status }
func (z *zone) SetOther(s reconciler.Status) *zone  { z.Other = s; return z }
func (z *zone) GetOther() reconciler.Status         { return z.Other }
func (z *zone) TableHeader() []string               { return []string{"Name", "Status"} }
func (z *zone) TableRow() []string                  { return []string{z.Name, z.Status.String()} }

func named(name string, records ...string) *zone {
	return &zone{Meta: object.Meta{Name: name}, Records: records}
}

var byName = statedb.Index[*zone, string]{
	Name:       "name",
	FromObject: func(z *zone) index.KeySet { return index.NewKeySet(index.String(z.Name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

type (
	// changes are the differences in these tests.
	changes = stateful.StateChangeOperations[[]string, string]
	// base is the reconciler under test, without a loop.
	base = stateful.BaseStatefulReconciler[*zone, []string, string]
	// impl is what it reconciles with.
	impl = stateful.StatefulReconciler[*zone, []string, string]
)

func adds(records ...string) changes    { return changes{ItemsToAdd: records} }
func removes(records ...string) changes { return changes{ItemsToRemove: records} }

const annotation = "example.org/records"

// server is the target and a minimal stateful reconciler for it.
type server struct {
	stateful.SetDiff[string]

	mu      sync.Mutex
	records map[string]map[string]bool
	calls   []changes
	// apply, set by before, is called before each change. An error ends the call.
	apply func(record string) error
	// wants, if set, replaces the records of the zone.
	wants []string
}

func newServer() *server { return &server{records: map[string]map[string]bool{}} }

func (s *server) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) GetStateAnnotationKey() string { return annotation }

func (s *server) ExtractCurrentState(z *zone) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wants != nil {
		return s.wants, nil
	}
	if slices.Contains(z.Records, "odd") {
		return nil, errors.New("odd records")
	}
	return z.Records, nil
}

// want sets the records that all zones want.
func (s *server) want(records ...string) { s.locked(func() { s.wants = records }) }

func (s *server) ApplyOperations(_ context.Context, z *zone, ops changes) error {
	s.locked(func() { s.calls = append(s.calls, ops) })
	for _, record := range ops.ItemsToRemove {
		if err := s.change(z.Name, record, false); err != nil {
			return err
		}
	}
	for _, record := range ops.ItemsToAdd {
		if err := s.change(z.Name, record, true); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) change(name, record string, present bool) error {
	var apply func(record string) error
	s.locked(func() { apply = s.apply })
	if apply != nil {
		if err := apply(record); err != nil {
			return err
		}
	}
	s.set(name, record, present)
	return nil
}

func (s *server) set(name, record string, present bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if present && s.records[name] == nil {
		s.records[name] = map[string]bool{}
	}
	if present {
		s.records[name][record] = true
		return
	}
	delete(s.records[name], record)
	if len(s.records[name]) == 0 {
		delete(s.records, name)
	}
}

// has returns the records under a name, sorted.
func (s *server) has(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.records[name]))
}

// take returns the calls since the last take.
func (s *server) take() (calls []changes) {
	s.locked(func() { calls, s.calls = s.calls, nil })
	return calls
}

// before sets the function that is called before each change, or none if it is nil.
func (s *server) before(apply func(record string) error) { s.locked(func() { s.apply = apply }) }

// failOn makes ApplyOperations fail before it changes a record.
func (s *server) failOn(record string) {
	s.before(func(r string) error {
		if r == record {
			return errors.New("no space for " + r)
		}
		return nil
	})
}

// env is a table and a loop in a bubble of virtual time.
type env struct {
	*reconcilertest.Env[*zone]
}

// inBubble runs a test against a loop.
func inBubble(t *testing.T, of impl, test func(e *env), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		start(e, e.config(opts...), of)
		test(e)
	})
}

func newEnv(t *testing.T) *env {
	return &env{reconcilertest.New(t, func(db *statedb.DB) (statedb.RWTable[*zone], error) {
		return statedb.NewTable(db, "zones", byName)
	})}
}

func (e *env) config(opts ...reconciler.Option) reconciler.Config[*zone] {
	return e.Config(reconciler.Config[*zone]{
		Clone: (*zone).Clone, SetStatus: (*zone).SetStatus, GetStatus: (*zone).GetStatus,
		Options: append([]reconciler.Option{
			reconciler.WithRefreshing(0, nil), reconciler.WithRetry(time.Second, time.Minute),
		}, opts...),
	})
}

func start[State, Item any](e *env, cfg reconciler.Config[*zone], of stateful.StatefulReconciler[*zone, State, Item]) {
	e.Helper()
	cfg, err := stateful.Configure(cfg, of)
	require.NoError(e, err)
	e.Start(cfg)
}

// change writes a row as a program does: a clone of the row if it exists, or else a new one, with
// other records and Pending.
func (e *env) change(name string, records ...string) {
	e.edit(name, func(z *zone) { z.Records = records })
}

func (e *env) edit(name string, f func(z *zone)) {
	next := named(name)
	if z, found := e.Get(next); found {
		next = z.Clone()
	}
	f(next)
	next.Status, next.Other = reconciler.StatusPending(), reconciler.StatusPending()
	e.Insert(next)
	synctest.Wait()
}

// restore writes a clone of a row, whatever the table has.
func (e *env) restore(row *zone) {
	e.edit(row.Name, func(z *zone) { *z = *row.Clone() })
}

func (e *env) remove(name string) {
	e.Delete(named(name))
	synctest.Wait()
}

func (e *env) get(name string) *zone {
	z, found := e.Get(named(name))
	require.True(e, found, "there is no row %q", name)
	return z
}

// revisionOf returns the revision of a row.
func (e *env) revisionOf(name string) statedb.Revision {
	_, revision, _ := e.Table.Get(e.DB.ReadTxn(), byName.Query(name))
	return revision
}

// refresh has a row applied again, and waits for it.
func (e *env) refresh(name string) {
	n, err := e.Loop.Refresh(e.Context(), name)
	require.NoError(e, err)
	require.Equal(e, 1, n)
	synctest.Wait()
}

// expect checks the status of a row and its error.
func (e *env) expect(name, want string) {
	e.Helper()
	z := e.get(name)
	got := z.Status.Kind.String()
	if text := z.Status.GetError(); text != "" {
		got += ": " + text
	}
	require.Equal(e, want, got)
}

// annotated checks the annotation of a row. Empty means that there is none.
func (e *env) annotated(name, want string) {
	e.Helper()
	require.Equal(e, want, e.get(name).GetAnnotations()[annotation])
}

// lastNote returns the note of the latest operation on a row.
func (e *env) lastNote(name string) string {
	events := e.Loop.Operations(inspect.OperationQuery{Key: name})
	require.NotEmpty(e, events)
	return events[len(events)-1].Note
}
