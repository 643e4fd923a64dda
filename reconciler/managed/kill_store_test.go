// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// store is a table in which each write of the loop has a kill point before and one after it. The
// program writes to the embedded table directly, without kill points.
type store struct {
	statedb.RWTable[*bucket]
	db *statedb.DB

	// mu may be locked while the table is locked. Do not lock the table while holding mu.
	mu sync.Mutex
	// owner is the process whose loop writes.
	owner *process
	// written lists writes that are not committed yet.
	written []write
}

// write is a write of a row. It is visible when the table has this revision.
type write struct {
	what, key string
	revision  statedb.Revision
}

func newStore(w *world) *store {
	s := &store{}
	s.db = statedb.New(statedb.WithMetrics(commits{statedb.NewExpVarMetrics(false), s}))
	table, err := statedb.NewTable(s.db, "buckets", byName)
	require.NoError(w, err)
	s.RWTable = table
	require.NoError(w, s.db.Start())
	w.Cleanup(func() { require.NoError(w, s.db.Stop()) })
	return s
}

// rows returns the present rows.
func (s *store) rows() (rows []*bucket) {
	for b := range s.All(s.db.ReadTxn()) {
		rows = append(rows, b)
	}
	return rows
}

// get returns a row, nil if there is none.
func (s *store) get(name string) *bucket {
	b, _, _ := s.Get(s.db.ReadTxn(), byName.Query(name))
	return b
}

func (s *store) Insert(wtxn statedb.WriteTxn, b *bucket) (*bucket, bool, error) {
	what := s.begin(wtxn, b)
	old, had, err := s.RWTable.Insert(wtxn, b)
	s.wrote(wtxn, what, b, err)
	return old, had, err
}

func (s *store) CompareAndSwap(wtxn statedb.WriteTxn, revision statedb.Revision, b *bucket) (*bucket, bool, error) {
	if _, _, found := s.Get(wtxn, byName.Query(b.Name)); !found {
		// This is the status of a row that is gone. Nothing is written, and whether the loop tries
		// depends on the order in which it sees the events: so it is no kill point.
		return s.RWTable.CompareAndSwap(wtxn, revision, b)
	}
	what := s.begin(wtxn, b)
	old, had, err := s.RWTable.CompareAndSwap(wtxn, revision, b)
	s.wrote(wtxn, what, b, err)
	return old, had, err
}

func (s *store) Delete(wtxn statedb.WriteTxn, b *bucket) (*bucket, bool, error) {
	s.process().reach("before write drop", b.Name)
	old, had, err := s.RWTable.Delete(wtxn, b)
	s.wrote(wtxn, "drop", b, err)
	return old, had, err
}

func (s *store) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner
}

// begin reaches the kill point before a write, and returns the name of the write.
func (s *store) begin(wtxn statedb.WriteTxn, b *bucket) (what string) {
	old, _, _ := s.Get(wtxn, byName.Query(b.Name))
	if what = difference(old, b); what != "" {
		s.process().reach("before write "+what, b.Name)
	}
	return what
}

// difference names the change that a write makes to the old row, which may be nil. It is "" for the
// write that precedes a drop in the same transaction.
func difference(old, b *bucket) string {
	if old == nil {
		old = &bucket{}
	}
	noted := func(key string) bool { return b.Annotations[key] != old.Annotations[key] }
	switch {
	case noted(managed.AnnotationPrefix + "external-create-pending"):
		return "create-pending"
	case noted(managed.AnnotationPrefix + "external-create-succeeded"):
		return "create-succeeded"
	case noted(managed.AnnotationPrefix + "external-create-failed"):
		return "create-failed"
	case len(b.Finalizers) > len(old.Finalizers):
		return "finalizer"
	case b.Region != old.Region:
		return "late"
	case b.Status != old.Status || !slices.Equal(b.Conditions, old.Conditions) || !maps.Equal(b.Annotations, old.Annotations) || b.Seen != old.Seen:
		return "outcome"
	}
	return ""
}

func (s *store) wrote(wtxn statedb.WriteTxn, what string, b *bucket, err error) {
	if err != nil || what == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = append(s.written, write{what, b.Name, s.RWTable.Revision(wtxn)})
}

// commits receives the metrics of the transactions of a store.
type commits struct {
	statedb.Metrics
	s *store
}

// WriteTxnTotalAcquisition is called when a transaction has locked the table. Writes that are not
// visible now were aborted.
func (c commits) WriteTxnTotalAcquisition(string, []string, time.Duration) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if len(c.s.written) == 0 {
		return
	}
	at := c.s.Revision(c.s.db.ReadTxn())
	c.s.written = slices.DeleteFunc(c.s.written, func(w write) bool { return w.revision > at })
}

// WriteTxnDuration is called when a transaction has ended, by the goroutine that ended it.
func (c commits) WriteTxnDuration(string, []string, time.Duration) {
	for _, w := range c.s.seen() {
		c.s.process().reach("after write "+w.what, w.key)
	}
}

// seen removes the writes that are visible now, and returns them.
func (s *store) seen() (seen []write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.written) == 0 {
		return nil
	}
	at := s.Revision(s.db.ReadTxn())
	for _, w := range s.written {
		if w.revision <= at {
			seen = append(seen, w)
		}
	}
	s.written = slices.DeleteFunc(s.written, func(w write) bool { return w.revision <= at })
	return seen
}
