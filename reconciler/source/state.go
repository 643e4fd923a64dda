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
	// wants them. Each is tried again by the next Replace, and by an Apply with its key. A deletion that
	// is refused, because the row has another owner, is an error of its call and not counted.
	Rejected int
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
	state.Rows, state.Rejected = n, len(s.rejected)+s.unnamed
	return state
}

// Input returns the name of the table, a slash and Config.Name: the first of etcd.Acks.Path.
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
func (s *Sink[Obj]) Connected() { s.connect(true, nil) }

// Disconnected tells that the source is not followed any more, and why; err may be nil. Nothing is
// removed. If it lasts, health is degraded. Further calls only change the error.
func (s *Sink[Obj]) Disconnected(err error) { s.connect(false, err) }

func (s *Sink[Obj]) connect(connected bool, err error) {
	var cause string
	if err != nil {
		cause = text.Cut(outcome.TextOf(err), outcome.MaxText)
	}
	s.link.Lock()
	s.mu.Lock()
	if !s.ended {
		s.cause = cause
	}
	changed := !s.ended && s.setConnected(connected, err)
	s.mu.Unlock()
	if changed {
		s.publishConnection()
	}
	s.link.Unlock()
	if changed && connected {
		s.log.Info("source connected")
	} else if changed {
		s.log.Warn("source disconnected", "error", cause)
	}
	s.tell()
}

// connectedUnlessTold sets the source connected, unless something was told about the connection
// since links was read.
func (s *Sink[Obj]) connectedUnlessTold(links int) {
	s.mu.Lock()
	told := s.links != links
	s.mu.Unlock()
	if !told {
		s.connect(true, nil)
	}
}

// setConnected changes the connection in memory, and reports whether it was another. The caller holds
// link and mu.
func (s *Sink[Obj]) setConnected(connected bool, err error) (changed bool) {
	s.links++
	s.state.Err = err
	if s.state.Connected == connected {
		return false
	}
	s.state.Connected, s.state.Since = connected, time.Now()
	s.rearm()
	return true
}

// publishConnection writes the connection into the table of inputs. The caller holds link.
func (s *Sink[Obj]) publishConnection() {
	s.mu.Lock()
	connected, since := s.state.Connected, s.state.Since
	s.mu.Unlock()
	wtxn := s.cfg.DB.WriteTxn(s.inputs.Meta())
	defer wtxn.Abort()
	s.inputs.Update(wtxn, s.cfg.Name, func(row *inputs.Input) { row.Connected, row.Since = connected, since })
	wtxn.Commit()
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

// settleTaken forgets the errors of the objects that were taken over, and publishes how many are left. The
// table includes them from its present revision on.
func (s *Sink[Obj]) settleTaken(c *call[Obj]) {
	s.mu.Lock()
	before := s.rejects
	for _, key := range c.taken {
		s.forget(key)
	}
	changed, left := s.rejects != before, len(s.rejected)+s.unnamed
	s.mu.Unlock()
	if !changed {
		return
	}
	wtxn := s.cfg.DB.WriteTxn(s.inputs.Meta())
	defer wtxn.Abort()
	s.inputs.Update(wtxn, s.cfg.Name, func(row *inputs.Input) {
		row.Rejected = left
		if row.Input > 0 {
			row.Output = s.cfg.Table.Revision(wtxn)
		}
	})
	wtxn.Commit()
	row, _ := s.inputs.Get(s.cfg.DB.ReadTxn(), s.cfg.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Output = row.Output
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
	s.tell()
}
