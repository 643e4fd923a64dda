// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/usercall"
)

// Sink puts the desired state of one source into a table. [New] makes one. Its methods are safe for
// concurrent use: Replace and Apply run one after the other. Their caller must not hold a write
// transaction of the table.
//
// Objects that are given to a Sink become rows. They must not be changed afterwards.
type Sink[Obj any] struct {
	cfg    Config[Obj]
	log    *slog.Logger
	rows   *rows.Rows[Obj]
	inputs *inputs.Table
	claim  *inputs.Claim

	// turn has an element while a call runs. running is the function of the program that the call has
	// called, and perRow what a row of the last piece cost its commit; it belongs to the call that has the
	// turn. closed ends calls, and is closed once.
	turn      chan struct{}
	running   usercall.Running
	perRow    time.Duration
	closed    chan struct{}
	closeOnce sync.Once

	// gaps is the number of calls that were not complete. The table includes the source up to
	// state.Input and all changes that were given later if full is true and gaps is fullGaps. full,
	// fullGaps, and initialized, which reports whether the initialiser has ended, belong to the call
	// that has the turn.
	gaps              atomic.Uint64
	fullGaps          uint64
	full, initialized bool

	// mu is held for short accesses to what follows, and while health is told. It is locked after the
	// table of inputs, and never while a function of the program runs.
	mu sync.Mutex
	// state has all but Rows and Rejected.
	state State
	// cause is the text of state.Err.
	cause string
	// links counts what was told about the connection.
	links int
	// rejected has the objects in error by their key; only the call that has the turn changes it.
	// unnamed is the number of those without a usable key. rejects changes when rejected does.
	rejected map[string]error
	unnamed  int
	rejects  int
	// listed reports whether a Replace was complete, refused whether the last list was refused because
	// it was empty.
	listed, refused bool
	// ended reports whether Close has run, and rowsAtEnd is the number of rows then.
	ended     bool
	rowsAtEnd int
	// timer runs while the source is stale, and watchdog while a call runs; each may be nil.
	timer, watchdog *time.Timer
	told            report
}

// Change is a change of one object of a source.
type Change[Obj any] struct {
	// Object is the object. If Deleted is true, only its primary key counts.
	Object Obj
	// Deleted reports whether the source has the object no longer.
	Deleted bool
}

// ErrEmpty is returned by [Sink.Replace], wrapped, for an empty list, or one of which no object is accepted, that
// would remove rows of the source.
var ErrEmpty = errors.New("the list is empty, and the source has rows")

// errClosed is returned after [Sink.Close].
var errClosed = errors.New("the source is closed")

// Replace makes the rows of this source the objects of a full list: it writes those that differ, and
// then removes the rows of this source that are not in the list. at is the revision of the source that
// the list shows. changed is the number of rows that were written or removed, also if there is an error.
// A Replace that is complete means that the source is connected, unless [Sink.Disconnected] was called
// meanwhile.
//
// An object in error is rejected: its row stays as it is, all others are applied, and the error joins an
// error for each, at most 100 of them. Such are: an object or a row of another owner; a key that is
// twice in the list, of which the first object counts; a panic in a function of the configuration or of
// an index. If an object has no key, because the function of the primary index panics, it may stand for
// any row: nothing is removed, and the call is not complete.
//
// An empty list is an error that wraps [ErrEmpty], and changes nothing, if the source has rows and
// Config.AllowEmpty is false. So is a list of which every object is rejected, if it would remove a row. Such a
// call is not complete.
//
// When ctx ends, Replace returns its error after the present piece. What is in the table stays, and the
// next Replace completes it. A call that is not complete moves neither the input's revision nor the
// initialiser. After [Sink.Close] it returns an error.
func (s *Sink[Obj]) Replace(ctx context.Context, list []Obj, at uint64) (changed int, err error) {
	return s.replace(ctx, list, at, s.cfg.AllowEmpty)
}

// Clear is [Sink.Replace] with an empty list that removes all rows of this source, whatever Config.AllowEmpty
// is: for a program that knows that the source is empty, and has not lost what it had.
func (s *Sink[Obj]) Clear(ctx context.Context, at uint64) (changed int, err error) {
	return s.replace(ctx, nil, at, true)
}

func (s *Sink[Obj]) replace(ctx context.Context, list []Obj, at uint64, allowEmpty bool) (changed int, err error) {
	if err := s.begin(ctx); err != nil {
		s.gaps.Add(1)
		return 0, err
	}
	defer s.end()
	c := s.newCall(ctx)
	c.allowEmpty = allowEmpty
	gaps := s.gaps.Load()
	if len(list) == 0 && !allowEmpty {
		if n := s.count(c.snapshot); n > 0 {
			s.gaps.Add(1)
			s.refuse()
			return 0, s.named(fmt.Errorf("%w: Config.AllowEmpty is false, %d row(s) stay", ErrEmpty, n))
		}
	}
	s.mu.Lock()
	links := s.links
	s.mu.Unlock()

	err = c.planList(list)
	if err == nil {
		c.publish = func(wtxn statedb.WriteTxn, out statedb.Revision) {
			s.publish(wtxn, c.unnamed == 0, at, out, c.numRejected(nil))
			if c.unnamed == 0 {
				s.claim.Initialized(wtxn)
			}
		}
		err = c.write(!s.initialized || !s.isPublished(c, at))
	}
	if err != nil {
		s.gaps.Add(1)
		if errors.Is(err, ErrEmpty) {
			s.refuse()
		}
		return c.changed, c.errors(err)
	}
	s.full, s.fullGaps, s.initialized = c.unnamed == 0, gaps, s.initialized || c.unnamed == 0
	s.settle(c, at, s.full, true)
	if s.full {
		s.connect(true, nil, &links)
	}
	return c.changed, c.errors(nil)
}

// Apply applies single changes of the source. at is the revision of the source with these changes. Of
// several changes of one key the last counts. Deleting an object that has no row does nothing. All else
// is as with [Sink.Replace].
//
// Apply does not end the initialiser. It moves the input's revision only if the table includes all that
// came before: after a Replace that was complete, and no call since that was not.
func (s *Sink[Obj]) Apply(ctx context.Context, changes []Change[Obj], at uint64) (changed int, err error) {
	if err := s.begin(ctx); err != nil {
		s.gaps.Add(1)
		return 0, err
	}
	defer s.end()
	c := s.newCall(ctx)
	err = c.planChanges(changes)
	moves := s.isFull() && c.unnamed == 0
	if err == nil {
		c.publish = func(wtxn statedb.WriteTxn, out statedb.Revision) {
			s.publish(wtxn, moves, at, out, c.numRejected(s.rejected)+s.unnamed)
		}
		err = c.write(!s.isPublished(c, at))
	}
	if err != nil {
		s.gaps.Add(1)
		return c.changed, c.errors(err)
	}
	s.full = s.full && c.unnamed == 0
	s.settle(c, at, moves, false)
	return c.changed, c.errors(nil)
}

// Close ends the source: it ends running calls after their present piece, and waits for them. Its rows
// stay, and an initialiser that has not ended stays as well: both belong to the next Sink with this
// name. All calls that come later return an error or do nothing. Further calls of Close do nothing.
func (s *Sink[Obj]) Close() {
	s.closeOnce.Do(func() { close(s.closed) })
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	rows := s.count(s.cfg.DB.ReadTxn())
	wtxn := s.cfg.DB.WriteTxn(s.inputs.Meta())
	defer wtxn.Abort()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.setConnected(wtxn, false, errClosed)
	s.ended, s.rowsAtEnd = true, rows
	s.rearm()
	wtxn.Commit()
	s.claim.Release()
	if s.cfg.Health != nil {
		s.cfg.Health.Stopped("closed")
	}
}

// begin waits for the turn of a call.
func (s *Sink[Obj]) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return s.named(ctx.Err())
	case <-s.closed:
		return s.named(errClosed)
	}
	if err := s.stopped(ctx); err != nil {
		<-s.turn
		return s.named(err)
	}
	if s.cfg.Health != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watch()
	}
	return nil
}

// watch looks for a function of the program that hangs, for as long as the call runs. The caller holds mu.
func (s *Sink[Obj]) watch() {
	s.watchdog = time.AfterFunc(usercall.LongAfter, func() {
		s.mu.Lock()
		if s.watchdog != nil {
			s.watch()
		}
		s.mu.Unlock()
		s.tell()
	})
}

// end ends the turn of a call, and tells health what has come of it.
func (s *Sink[Obj]) end() {
	if s.cfg.Health != nil {
		s.mu.Lock()
		s.watchdog.Stop()
		s.watchdog = nil
		s.mu.Unlock()
		s.tell()
	}
	<-s.turn
}

// stopped returns why a call must not go on; nil if it may.
func (s *Sink[Obj]) stopped(ctx context.Context) error {
	select {
	case <-s.closed:
		return errClosed
	default:
		return ctx.Err()
	}
}

// named adds the names of the source and of its table to an error.
func (s *Sink[Obj]) named(err error) error {
	return fmt.Errorf("source %q of table %q: %w", s.cfg.Name, s.cfg.Table.Name(), err)
}

// publish writes the row of the source in the table of inputs. moves reports whether the revision of the
// input moves to at. If not, an object that is no longer rejected is included from the revision out on.
func (s *Sink[Obj]) publish(wtxn statedb.WriteTxn, moves bool, at uint64, out statedb.Revision, rejected int) {
	s.inputs.Update(wtxn, s.cfg.Name, func(row *inputs.Input) {
		if moves {
			row.Input, row.Output = at, out
		} else if row.Input > 0 && rejected < row.Rejected {
			row.Output = out
		}
		row.Rejected = rejected
	})
}

// isFull reports whether the table includes the source as it is after all calls before.
func (s *Sink[Obj]) isFull() bool { return s.full && s.gaps.Load() == s.fullGaps }

// isPublished reports whether a call that changes no row has nothing to publish: its revision and its
// errors are known.
func (s *Sink[Obj]) isPublished(c *call[Obj], at uint64) bool {
	row, found := s.inputs.Get(c.snapshot, s.cfg.Name)
	return found && row.Input == at && s.isFull() && row.Rejected == 0 && len(c.rejected) == 0 && c.unnamed == 0
}
