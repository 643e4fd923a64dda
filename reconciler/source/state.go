// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source

import (
	"fmt"
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
	// call and not counted.
	Rejected int
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
	if s.ended {
		// The rows belong to the next Sink with this name.
		n = s.rowsAtEnd
	}
	state := s.state
	state.Rows, state.Rejected, state.Running = n, len(s.rejected)+s.unnamed, s.running.Long()
	return state
}

// Input returns the name of the table, a slash and Config.Name, as in "routes/etcd": what etcd.Acks follows.
func (s *Sink[Obj]) Input() string { return s.cfg.Table.Name() + "/" + s.cfg.Name }

// KeyOf returns the primary key of an object; objects with the same key are one row. It returns an error if
// the primary index makes no key of the object or one above 65,535 bytes, or panics.
func (s *Sink[Obj]) KeyOf(obj Obj) (key string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in the primary index: %s", text.Cut(outcome.TextOfAny(r), outcome.MaxText))
		}
	}()
	made, err := s.rows.KeyOf(obj)
	return string(made), err
}

// Connected tells that the source is followed: its changes arrive. A complete Replace tells the same.
func (s *Sink[Obj]) Connected() { s.connect(true, nil, nil) }

// Disconnected tells that the source is not followed any more, and why; err may be nil. Nothing is
// removed. If it lasts, health is degraded. Further calls only change the error.
func (s *Sink[Obj]) Disconnected(err error) { s.connect(false, err, nil) }

// connect sets the connection; if links is not nil, only if nothing was told about it since.
func (s *Sink[Obj]) connect(connected bool, err error, links *int) {
	s.mu.Lock()
	news := s.state.Connected != connected && !s.ended
	if !news {
		s.setConnected(nil, connected, err)
	}
	s.mu.Unlock()
	if news {
		// In one step with its row, so the connection that is told last is the one that stays.
		wtxn := s.cfg.DB.WriteTxn(s.inputs.Meta())
		defer wtxn.Abort()
		s.mu.Lock()
		news = (links == nil || *links == s.links) && s.setConnected(wtxn, connected, err)
		s.mu.Unlock()
		wtxn.Commit()
	}
	if news && connected {
		s.log.Info("source connected")
	} else if news {
		s.log.Warn("source disconnected", "error", causeOf(err))
	}
	s.tell()
}

func causeOf(err error) string {
	if err == nil {
		return ""
	}
	return text.Cut(outcome.TextOf(err), outcome.MaxText)
}

// setConnected changes the connection in memory and in the table of inputs, and reports whether it was another.
// The caller holds mu. If the connection is another one, the transaction has to lock the table of inputs.
func (s *Sink[Obj]) setConnected(wtxn statedb.WriteTxn, connected bool, err error) (changed bool) {
	if s.ended {
		return false
	}
	s.links++
	s.state.Err, s.cause = err, causeOf(err)
	if s.state.Connected == connected {
		return false
	}
	s.state.Connected, s.state.Since = connected, time.Now()
	s.inputs.Update(wtxn, s.cfg.Name, func(row *inputs.Input) { row.Connected, row.Since = connected, s.state.Since })
	s.rearm()
	return true
}

// settle keeps in memory what a complete Replace or Apply has published. moved reports whether the
// revision of the input was moved to at, and list whether the call was a Replace.
func (s *Sink[Obj]) settle(c *call[Obj], at uint64, moved, list bool) {
	row, _ := s.inputs.Get(s.cfg.DB.ReadTxn(), s.cfg.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.unnamed == 0 {
		s.state.LastEvent = time.Now()
	}
	if moved {
		s.state.Input = at
	}
	s.state.Output = row.Output
	if list {
		s.rejected, s.unnamed, s.refused, s.listed = c.rejected, c.unnamed, false, s.listed || c.unnamed == 0
		s.rejects++
	} else {
		for key := range c.keys {
			s.forget(key)
		}
		for key, err := range c.rejected {
			s.rejected[key] = err
			s.rejects++
		}
		s.unnamed += c.unnamed
	}
	s.rearm()
}

// forget removes a key from those in error. The caller holds mu.
func (s *Sink[Obj]) forget(key string) {
	if _, was := s.rejected[key]; was {
		delete(s.rejected, key)
		s.rejects++
	}
}

// refuse keeps that an empty list was refused.
func (s *Sink[Obj]) refuse() {
	s.mu.Lock()
	s.refused = true
	s.mu.Unlock()
}
