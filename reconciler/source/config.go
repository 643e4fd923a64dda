// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Config is the configuration of a [Sink].
//
// Owner, Same and Merge are called by the goroutine that calls a method of the Sink, mostly without a
// lock. They are called with the table locked if a row changes while a call compares it, so they should
// be quick. They must not change their arguments. A panic in one of them is an error of the object.
type Config[Obj any] struct {
	// Name names the source: as an input of the table, as the owner of rows, as an initialiser of the
	// table, and in errors. Required. It must be unique among the open sources of the table.
	Name string
	// DB holds the table. Required.
	DB *statedb.DB
	// Table gets the objects. Required. Its name has at most 24 characters.
	Table statedb.RWTable[Obj]

	// Owner returns the name of the source that a row belongs to; the rows of this source return Name.
	// Rows for which it returns any other name are left alone. nil means that all rows are this
	// source's, and that the table has no other source.
	Owner func(Obj) string
	// Same reports whether a row wants what an object of the source wants: if so, the row is not
	// written. nil means [reflect.DeepEqual], which follows pointers.
	Same func(row, obj Obj) bool
	// Merge returns the row to write in place of row when the two are not the same: a new object, with
	// what the source wants and what the row keeps, and with its status set to Pending if it has one. It
	// must not return row itself. row is the row that is replaced, even if it was written in
	// the middle of the call. nil means that obj is written.
	Merge func(row, obj Obj) Obj

	// AllowEmpty lets an empty list remove all rows of this source. If it is false, the default, such a
	// list is an error, and one that removes rows although every object of it is rejected. [Sink.Clear] is for
	// one list.
	AllowEmpty bool
	// MaxDeletions bounds the rows that one call of Replace, Clear or Apply deletes. The deletions of a call above
	// it are held: the rest of the call is applied, the error wraps [ErrHeld], and health names their number and some
	// keys, until a person approves exactly this set ([Sink.Approve]), or the source has the objects again. A single
	// deletion is never held, and deletions in several calls are not added up. The zero value is no bound.
	MaxDeletions Bound

	// Registry has the Sink from New until Close, so that commands and the page show it, and approve deletions
	// that are held; nil for none.
	Registry *inspect.Registry
	// Health is told when the source is disconnected or without its first list for a minute, and each
	// minute from then on, when objects are rejected, when an empty list is refused, when deletions are held, of
	// what [Sink.Report] reports, when a function of this configuration hangs, and when that is over. It is called
	// without a lock of the table, by one goroutine at a time, and must not call the Sink, which waits for it. It must be
	// of this Sink alone: the Sink makes no scope. nil means that health is not reported.
	Health cell.Health
	// Log receives connects, disconnects, and the stack of the first panic of a call. nil means no log.
	Log *slog.Logger
}

func (cfg *Config[Obj]) validate() error {
	var errs []error
	if cfg.Name == "" {
		errs = append(errs, errors.New(`Config.Name is "", must name the source`))
	}
	if cfg.DB == nil {
		errs = append(errs, errors.New("Config.DB is nil"))
	}
	if cfg.Table == nil {
		errs = append(errs, errors.New("Config.Table is nil"))
	}
	if cfg.DB != nil && cfg.Table != nil && cfg.DB.GetTable(cfg.DB.ReadTxn(), cfg.Table.Name()) != statedb.TableMeta(cfg.Table) {
		errs = append(errs, fmt.Errorf("Config.Table is %q, which is not a table of Config.DB", cfg.Table.Name()))
	}
	return errors.Join(append(errs, cfg.MaxDeletions.validate())...)
}

// New returns a Sink. It registers an initialiser with the name of the source in the table, which ends
// when the first full list is in; until then the table is not initialised. So New is called before
// reconcilers of the table run: in a hive, in a constructor. The Sink has to be closed.
//
// It is an error if a field of the configuration is missing or wrong, if the table has an open source
// with this name, and if it has two open sources and not both have an Owner.
//
// New locks the table for a moment, so the caller must not hold a write transaction of it. It is safe for
// concurrent use.
func New[Obj any](cfg Config[Obj]) (*Sink[Obj], error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var err error
	s := &Sink[Obj]{
		cfg: cfg, turn: make(chan struct{}, 1), perRow: firstPerRow, rejected: rejections{byKey: map[string]error{}},
	}
	s.closed, s.close = context.WithCancel(context.Background())
	s.gaps.Store(1)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s.log = cfg.Log.With("source", cfg.Name, "table", cfg.Table.Name())
	if cfg.Same == nil {
		s.cfg.Same = func(row, obj Obj) bool { return reflect.DeepEqual(row, obj) }
	}
	if cfg.Merge == nil {
		s.cfg.Merge = func(_, obj Obj) Obj { return obj }
	}
	s.rows = rows.NewBeside[Obj](cfg.DB, cfg.Table)
	if s.inputs, err = inputs.Open(cfg.DB, cfg.Table.Name()); err != nil {
		return nil, fmt.Errorf("Config.Table: %w", err)
	}
	wtxn := cfg.DB.WriteTxn(cfg.Table, s.inputs.Meta())
	defer wtxn.Abort()
	if s.claim, err = s.inputs.Claim(wtxn, cfg.Table, cfg.Name, cfg.Owner == nil); err != nil {
		return nil, fmt.Errorf("Config.Name is %q: %w", cfg.Name, err)
	}
	wtxn.Commit()
	if cfg.Registry != nil {
		cfg.Registry.AddSource(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Since = time.Now()
	if cfg.Health != nil {
		s.timer = time.AfterFunc(staleAfter, s.tell)
	}
	return s, nil
}
