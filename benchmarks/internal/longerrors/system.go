// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// row is as small as a row can be.
type row struct {
	id     uint64
	status reconciler.Status
}

func (r *row) clone() *row                        { c := *r; return &c }
func (r *row) setStatus(s reconciler.Status) *row { r.status = s; return r }
func (r *row) getStatus() reconciler.Status       { return r.status }
func (r *row) TableHeader() []string              { return []string{"ID"} }
func (r *row) TableRow() []string                 { return []string{strconv.FormatUint(r.id, 10)} }
func key(id uint64) string                        { return strconv.FormatUint(id, 10) }

var byID = statedb.Index[*row, uint64]{
	Name:       "id",
	FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.Uint64(r.id)) },
	FromKey:    index.Uint64,
	FromString: index.Uint64String,
	Unique:     true,
}

// down is a target that fails every operation, with a text made for it.
type down struct {
	text     int
	attempts atomic.Uint64
	// counting is held while the heap is measured, so that no text is made.
	counting sync.RWMutex
}

// failure returns an error with a text of its own.
func (d *down) failure(id uint64) error {
	d.counting.RLock()
	defer d.counting.RUnlock()
	begin := fmt.Sprintf("object %d, attempt %d: ", id, d.attempts.Add(1))
	return errors.New(begin + strings.Repeat("x", max(0, d.text-len(begin))))
}

func (d *down) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *row) error {
	return d.failure(r.id)
}

func (d *down) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *row) error {
	return d.failure(r.id)
}

func (*down) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*row, statedb.Revision]) error {
	return nil
}

// system is a table whose rows a loop fails to apply.
type system struct {
	db       *statedb.DB
	table    statedb.RWTable[*row]
	target   *down
	registry inspect.Registry
	loop     *reconciler.Loop[*row]
}

func newSystem(cfg config) (*system, error) {
	s := &system{db: statedb.New(), target: &down{text: cfg.text}}
	var err error
	if s.table, err = statedb.NewTable(s.db, "objects", byID); err != nil {
		return nil, err
	}
	s.loop, err = reconciler.New(reconciler.Config[*row]{
		DB: s.db, Table: s.table, Operations: s.target,
		Clone: (*row).clone, SetStatus: (*row).setStatus, GetStatus: (*row).getStatus,
		Options: []reconciler.Option{
			reconciler.WithRegistry(&s.registry), reconciler.WithRetry(100*time.Millisecond, time.Second),
		},
	})
	return s, err
}

// fill writes the rows, and returns the revision of the table after that.
func (s *system) fill(n uint64) (statedb.Revision, error) {
	wtxn := s.db.WriteTxn(s.table)
	defer wtxn.Abort()
	for id := range n {
		if _, _, err := s.table.Insert(wtxn, &row{id, reconciler.StatusPending()}); err != nil {
			return 0, err
		}
	}
	return s.table.Revision(wtxn.Commit()), nil
}

// rows returns the size of the rows in bytes, including the texts that are kept, and the number of rows. The
// error names a row in a wrong state.
func (s *system) rows(text int) (bytes, n uint64, err error) {
	for r := range s.table.All(s.db.ReadTxn()) {
		n++
		kept := r.status.GetError()
		bytes += uint64(len(kept)) + uint64(unsafe.Sizeof(*r))
		switch {
		case r.status.Kind != reconciler.StatusKindError:
			err = fmt.Errorf("row %d is %s", r.id, r.status.Kind)
		case !strings.HasPrefix(kept, fmt.Sprintf("object %d, attempt ", r.id)):
			err = fmt.Errorf("row %d has the error %.40q", r.id, kept)
		case len(kept) > reconciler.MaxErrorText, text <= reconciler.MaxErrorText && len(kept) != text:
			err = fmt.Errorf("row %d has an error of %d bytes", r.id, len(kept))
		}
	}
	return bytes, n, err
}
