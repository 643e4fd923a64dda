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

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/rows"
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
	// turn. closed has ended when Close was called, which calls close.
	turn    chan struct{}
	running guard.Running
	perRow  time.Duration
	closed  context.Context
	close   context.CancelFunc

	// gaps is the number of calls that were not complete; the beginning counts as one. The table includes the
	// source up to state.Input and all changes that were given later if gaps is fullGaps, which belongs to the
	// call that has the turn.
	// loaded is what SetLoaded was given.
	gaps     atomic.Uint64
	loaded   atomic.Pointer[func(context.Context) error]
	fullGaps uint64

	// mu is held for short accesses to what follows, and while health is told. It is locked after the
	// table of inputs, and never while a function of the program runs. Only the call that has the turn changes
	// rejected and listed.
	mu sync.Mutex
	// state has all but Running, Rejected, Held and, until Close, Rows.
	state State
	// away reports whether Disconnected was called since the last call has begun, and said whether the log was told of the
	// connection.
	away, said bool
	rejected   rejections
	// reported is what Report was told last. hold are the deletions that are held; nil if none is. Only the call that has
	// the turn changes hold.
	// upTo is the revision of the source that the table includes but for these.
	reported []Problem
	hold     *heldSet[Obj]
	upTo     uint64
	// listed reports whether a Replace was complete, so that the initialiser has ended. refused reports whether
	// the last list was refused because it was empty.
	listed, refused bool
	// ended reports whether Close has run.
	ended bool
	// began is when the call that runs has begun; zero if none runs.
	began time.Time
	// timer runs while a call runs or the source is stale; nil if there is no health to tell. told is the last
	// report, with its error; empty if there was none.
	timer *time.Timer
	told  string
}

// rejections are objects in error. They do not change after the call that has found them.
type rejections struct {
	byKey map[string]error
	// unnamed is the number of objects without a usable key.
	unnamed int
}

func (r rejections) num() int { return len(r.byKey) + r.unnamed }

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

// ErrHeld is returned by a call, wrapped, that has held its deletions, because they are more than
// Config.MaxDeletions allows. All else of the call is applied.
var ErrHeld = errors.New("more deletions than Config.MaxDeletions allows are held")

// errClosed is returned after [Sink.Close].
var errClosed = errors.New("the source is closed")

// Replace makes the rows of this source the objects of a full list: it writes those that differ, and
// then removes the rows of this source that are not in the list. at is the revision of the source that
// the list shows. changed is the number of rows that were written or removed, even if there is an error.
// A Replace that is complete means that the source is connected, unless [Sink.Disconnected] was called
// meanwhile.
//
// An object in error is rejected: its row stays as it is, all others are applied, and the error joins an
// error for each, at most 100 of them. Such are: an object or a row of another owner; a key that is
// twice in the list: the first object counts; a panic in a function of the configuration or of
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
	return s.call(ctx, at, false, func(c *call[Obj]) error { return c.planList(list, s.cfg.AllowEmpty) })
}

// Clear is [Sink.Replace] with an empty list that removes all rows of this source, whatever Config.AllowEmpty
// is: for a program that knows that the source is empty, and has not lost what it had. Config.MaxDeletions bounds
// it, too.
func (s *Sink[Obj]) Clear(ctx context.Context, at uint64) (changed int, err error) {
	return s.call(ctx, at, false, func(c *call[Obj]) error { return c.planList(nil, true) })
}

// Apply applies single changes of the source. at is the revision of the source with these changes. Of
// several changes of one key the last counts. Deleting an object that has no row does nothing. All else
// is as with [Sink.Replace].
//
// Apply does not end the initialiser, unless that waits for deletions that are held, and Apply ends that. It moves the
// input's revision only if the table includes all that came before: after a Replace that was complete, and no call since
// that was not, and while no deletions are held. A key that is held, and is in the call, is not held any more, unless the
// call deletes it among too many others.
func (s *Sink[Obj]) Apply(ctx context.Context, changes []Change[Obj], at uint64) (changed int, err error) {
	return s.call(ctx, at, false, func(c *call[Obj]) error { return c.planChanges(changes) })
}

// call makes a call in its turn, after which the source is at the revision at. approves reports whether it is an
// Approve: what that has not done is still held, and no gap.
func (s *Sink[Obj]) call(
	ctx context.Context, at uint64, approves bool, plan func(*call[Obj]) error,
) (changed int, err error) {
	select {
	case s.turn <- struct{}{}:
		defer s.end()
	case <-ctx.Done():
	case <-s.closed.Done():
	}
	// Also in its turn: if the turn comes when the context has ended, either may be seen.
	if err := s.stopped(ctx); err != nil {
		if !approves {
			s.gaps.Add(1)
		}
		return 0, s.named(err)
	}
	s.setBegan(time.Now())
	c := &call[Obj]{
		Sink: s, ctx: ctx, snapshot: s.cfg.DB.ReadTxn(), at: at, gapsBefore: s.gaps.Load(),
		complete: true, rejected: rejections{byKey: map[string]error{}}, hold: s.hold, approves: approves,
	}
	if err = plan(c); err == nil {
		c.moves = c.complete && (c.list || s.isFull()) && c.hold == nil
		c.published = len(c.steps) == 0 && c.isPublished()
		err = c.write()
	}
	c.settle(err)
	if err == nil && c.held > 0 {
		err = c.hold.err(c.Input())
	}
	return c.changed, c.errors(err)
}

// Close ends the source: it ends running calls after their present piece, and waits for them. Its rows
// stay, and an initialiser that has not ended stays as well: both belong to the next Sink with this
// name. All calls that come later return an error or do nothing. Further calls of Close do nothing.
func (s *Sink[Obj]) Close() {
	s.close()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	n := s.count(s.cfg.DB.ReadTxn())
	wtxn := s.cfg.DB.WriteTxn(s.inputs.Meta())
	defer wtxn.Abort()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.setConnected(false, errClosed)
	// What is held belongs to the next Sink with this name, whose first list finds it again.
	s.hold = nil
	s.inputs.Update(wtxn, s.cfg.Name, s.writeConnection)
	s.ended, s.state.Rows = true, n
	s.rearm()
	wtxn.Commit()
	s.claim.Release()
	if s.cfg.Registry != nil {
		s.cfg.Registry.RemoveSource(s)
	}
	if s.cfg.Health != nil {
		s.cfg.Health.Stopped("closed")
	}
}

// setBegan notes that a call begins, or with the zero time that none runs.
func (s *Sink[Obj]) setBegan(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.began = false, at
	s.rearm()
}

// end ends the turn of a call, and tells health what has come of it.
func (s *Sink[Obj]) end() {
	s.setBegan(time.Time{})
	s.tell()
	<-s.turn
}

// stopped returns why a call must not go on; nil if it may.
func (s *Sink[Obj]) stopped(ctx context.Context) error {
	if s.closed.Err() != nil {
		return errClosed
	}
	return ctx.Err()
}

// named adds the names of the source and of its table to an error.
func (s *Sink[Obj]) named(err error) error {
	return fmt.Errorf("source %q of table %q: %w", s.cfg.Name, s.cfg.Table.Name(), err)
}

// publish writes the row of the source in the table of inputs. If the revision of the input does not move, an
// object that is no longer rejected is included from the present revision of the table on.
func (c *call[Obj]) publish(wtxn statedb.WriteTxn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moves {
		c.claim.Initialized(wtxn)
	}
	if c.list && c.complete {
		c.connected = !c.away && c.setConnected(true, nil)
	}
	c.inputs.Update(wtxn, c.cfg.Name, func(row *inputs.Input) {
		n := c.rejected.num() + len(c.reported)
		if c.moves {
			row.Input = c.at
		}
		if c.moves || row.Input > 0 && n < row.Rejected {
			row.Output = c.cfg.Table.Revision(wtxn)
		}
		c.writeProblems(row, c.rejected, c.hold)
		c.writeConnection(row)
	})
	c.published = true
}

// isPublished reports whether a call that changes no row has nothing to publish: its revision, its errors and its
// connection are known.
func (c *call[Obj]) isPublished() bool {
	row, _ := c.inputs.Get(c.snapshot, c.cfg.Name)
	return row.Input == c.at && c.isFull() && row.Rejected == 0 && c.rejected.num() == 0 &&
		row.Held == 0 && c.hold == nil && (row.Connected || !c.list)
}

// isFull reports whether the table includes the source as it is after all calls before.
func (s *Sink[Obj]) isFull() bool { return s.gaps.Load() == s.fullGaps }

// settle keeps in memory what a call has come to. end is why it has ended early; nil if it has not.
func (c *call[Obj]) settle(end error) {
	if c.connected {
		c.log.Info("source connected")
	}
	if (end != nil || !c.complete) && !c.approves {
		c.gaps.Add(1)
	}
	row, _ := c.inputs.Get(c.cfg.DB.ReadTxn(), c.cfg.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if end != nil {
		c.refused = c.refused || errors.Is(end, ErrEmpty)
		return
	}
	c.Sink.rejected, c.refused = c.rejected, c.refused && !c.list
	if c.hold != nil && c.hold != c.Sink.hold {
		c.log.Warn("deletions held", "number", len(c.hold.steps), "set", c.hold.set)
	}
	c.Sink.hold = c.hold
	if c.complete && (c.list || c.isFull()) {
		c.upTo = c.at
	}
	c.state.Input, c.state.Output = row.Input, row.Output
	if c.complete && !c.approves {
		c.state.LastEvent = time.Now()
	}
	c.listed = c.listed || c.moves
	if c.list && c.complete {
		c.fullGaps = c.gapsBefore
	}
}
