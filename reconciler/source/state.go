// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source

import (
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/text"
)

// State is how far a source is.
type State struct {
	// Connected reports whether the source is followed, and Since is the time since when it is, or is
	// not. A new Sink is not connected.
	Connected bool
	Since     time.Time
	// Err is why the source is not connected, as given to [Sink.Disconnected]; nil if it was not said.
	Err error
	// LastEvent is the time of the last Replace or Apply that was complete; zero if there was none.
	LastEvent time.Time
	// Input is the revision of the source that the table includes, and Output is the revision of the
	// table that includes it. Both are zero until the first Replace is complete.
	Input  uint64
	Output statedb.Revision
	// Rows is the number of rows of the source in the table.
	Rows int
	// Rejected is the number of objects that are in error, and so not in the table as the source
	// wants them: also a row that could not be removed. Each is tried again by the next Replace, and by an
	// Apply with its key. A deletion that is refused, because the row has another owner, is an error of its
	// call and not counted. What was told to [Sink.Report] is counted, too.
	Rejected int
	// Held is the number of deletions that are held (Config.MaxDeletions).
	Held int
	// Running describes the function of the program that runs for over ten seconds, such as Same or Merge:
	// which one, of which key, and since when; empty if there is none. It is found without a lock.
	Running string
}

// State returns the state of the source. If Config.Owner is set, it reads all rows of the table to count
// those of the source. After [Sink.Close] the state is that at the end, not connected.
func (s *Sink[Obj]) State() State {
	n := s.count(s.cfg.DB.ReadTxn())
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	if !s.ended {
		// Later the rows belong to the next Sink with this name.
		state.Rows = n
	}
	state.Rejected, state.Running = s.rejected.num()+len(s.reported), s.running.Long()
	if s.hold != nil {
		state.Held = len(s.hold.steps)
	}
	return state
}

// Input returns the name of the table, a slash and Config.Name, as in "routes/etcd": what etcd.Acks follows.
func (s *Sink[Obj]) Input() string { return s.cfg.Table.Name() + "/" + s.cfg.Name }

// SetLoaded sets what [Sink.Loaded] calls: what fills the sink calls it once, before it begins.
func (s *Sink[Obj]) SetLoaded(loaded func(context.Context) error) { s.loaded.Store(&loaded) }

// Loaded waits until what the source has now is in the table, as far as what fills the sink can tell: the sources in the
// packages below this one can. Otherwise it returns nil at once. See [inspect.Source].
func (s *Sink[Obj]) Loaded(ctx context.Context) error {
	if loaded := s.loaded.Load(); loaded != nil {
		return (*loaded)(ctx)
	}
	return nil
}

// KeyOf returns the primary key of an object; objects with the same key are one row. It returns an error if
// the primary index makes no key of the object or one above 65,535 bytes, or panics.
func (s *Sink[Obj]) KeyOf(obj Obj) (key string, err error) {
	// The panic is for the caller, who has asked, and is not logged.
	return (&call[Obj]{Sink: s, panicked: true}).keyOf(obj)
}

// Connected tells that the source is followed: its changes arrive. A complete Replace tells the same.
func (s *Sink[Obj]) Connected() { s.connect(true, nil) }

// Disconnected tells that the source is not followed any more, and why; err may be nil. Nothing is
// removed. If it lasts, health is degraded. Further calls only change the error.
func (s *Sink[Obj]) Disconnected(err error) { s.connect(false, err) }

// connect sets the connection, and then the row of the source.
func (s *Sink[Obj]) connect(connected bool, err error) {
	s.mu.Lock()
	// A new source is not connected: that it cannot be is news, too.
	news := s.setConnected(connected, err) || !s.said && !s.ended && err != nil
	s.said = s.said || news
	s.mu.Unlock()
	if news {
		wtxn := s.cfg.DB.WriteTxn(s.inputs.Meta())
		defer wtxn.Abort()
		s.mu.Lock()
		if !s.ended {
			s.inputs.Update(wtxn, s.cfg.Name, s.writeConnection)
		}
		s.mu.Unlock()
		wtxn.Commit()
		switch {
		case connected:
			s.log.Info("source connected")
		case err == nil:
			s.log.Info("source disconnected")
		default:
			s.log.Warn("source disconnected", "error", causeOf(err))
		}
	}
	s.tell()
}

func causeOf(err error) string {
	if err == nil {
		return ""
	}
	return text.Cut(outcome.TextOf(err), outcome.MaxText)
}

// setConnected changes the connection in memory, and reports whether it was another. Then the caller has to write
// the row. The caller holds mu.
func (s *Sink[Obj]) setConnected(connected bool, err error) (changed bool) {
	if s.ended {
		return false
	}
	s.state.Err = err
	s.away = s.away || !connected
	if s.state.Connected == connected {
		return false
	}
	s.state.Connected, s.state.Since, s.said = connected, time.Now(), true
	return true
}

// writeConnection sets the connection in the row of the source. It is always the present one, so the connection that
// is told last stays, whichever transaction comes last. The caller holds mu.
func (s *Sink[Obj]) writeConnection(row *inputs.Input) {
	row.Connected, row.Since = s.state.Connected, s.state.Since
}
