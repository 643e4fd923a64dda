// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
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

var byName = statedb.Index[*zone, string]{
	Name:       "name",
	FromObject: func(z *zone) index.KeySet { return index.NewKeySet(index.String(z.Name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// changes is the type of the differences in these tests.
type changes = stateful.StateChangeOperations[[]string, string]

const annotation = "example.org/records"

// server is the target and a minimal stateful reconciler for it.
type server struct {
	stateful.SetDiff[string]

	mu      sync.Mutex
	records map[string]map[string]bool
	calls   []changes
	// apply, set by before, is called before each change. An error ends the call.
	apply func(name, record string) error
	// extract, if set, replaces the records of the zone. It is set before the start.
	extract func(z *zone) ([]string, error)
}

func newServer() *server { return &server{records: map[string]map[string]bool{}} }

func (s *server) GetStateAnnotationKey() string { return annotation }

func (s *server) ExtractCurrentState(z *zone) ([]string, error) {
	if s.extract != nil {
		return s.extract(z)
	}
	return z.Records, nil
}

func (s *server) ApplyOperations(_ context.Context, z *zone, ops changes) error {
	s.mu.Lock()
	s.calls = append(s.calls, ops)
	s.mu.Unlock()
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
	s.mu.Lock()
	apply := s.apply
	s.mu.Unlock()
	if apply != nil {
		if err := apply(name, record); err != nil {
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
	var out []string
	for record := range s.records[name] {
		out = append(out, record)
	}
	slices.Sort(out)
	return out
}

// take returns the calls since the last take.
func (s *server) take() []changes {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// failOn makes ApplyOperations fail before it changes a record, until the returned function is
// called.
func (s *server) failOn(record string) (heal func()) {
	s.before(func(_, r string) error {
		if r == record {
			return errors.New("no space for " + r)
		}
		return nil
	})
	return func() { s.before(nil) }
}

// before sets the function that is called before each change, or none if it is nil.
func (s *server) before(apply func(name, record string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply = apply
}

// env is a table and a loop in a bubble of virtual time.
type env struct {
	*reconcilertest.Env[*zone]
}

// impl is the type of the reconcilers under test.
type impl = stateful.StatefulReconciler[*zone, []string, string]

// inBubble runs a test against a loop.
func inBubble(t *testing.T, of impl, test func(e *env), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.start(e.config(opts...), of)
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

func (e *env) start(cfg reconciler.Config[*zone], of impl) {
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
	next := &zone{Meta: object.Meta{Name: name}}
	if z, found := e.Get(next); found {
		next = z.Clone()
	}
	f(next)
	next.Status, next.Other = reconciler.StatusPending(), reconciler.StatusPending()
	e.Insert(next)
	synctest.Wait()
}

func (e *env) remove(name string) {
	e.Delete(&zone{Meta: object.Meta{Name: name}})
	synctest.Wait()
}

func (e *env) get(name string) *zone {
	z, found := e.Get(&zone{Meta: object.Meta{Name: name}})
	require.True(e, found, "there is no row %q", name)
	return z
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

// pass advances the virtual time, and waits until the loop is idle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func adds(records ...string) changes    { return changes{ItemsToAdd: records} }
func removes(records ...string) changes { return changes{ItemsToRemove: records} }
