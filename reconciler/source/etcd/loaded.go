// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/reconciler/source"
)

// load is a call of [Source.Loaded].
type load struct {
	// at is the revision of the store that it waits for; zero if the store has not been asked yet.
	at    int64
	ended chan struct{} // closed when err is set
	err   error
}

// askAgain is after which time etcd is asked for progress again: it does not answer while the watch lags behind.
const askAgain = 100 * time.Millisecond

// Loaded waits until what the store has now is in the table. It returns an error if that cannot be: bad keys, rows that
// are held since the store was replaced, objects that the sink has rejected, deletions that it holds
// ([source.ErrHeld]). While the store is not followed it waits; the error of ctx says what for. It costs two requests,
// and may be called from any goroutine.
func (s *Source[Obj]) Loaded(ctx context.Context) error {
	l := &load{ended: make(chan struct{})}
	s.mu.Lock()
	s.loads = append(s.loads, l)
	s.mu.Unlock()
	s.asked.Send()
	select {
	case <-l.ended:
		return l.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	at := l.at
	s.loads = slices.DeleteFunc(s.loads, func(other *load) bool { return other == l })
	s.mu.Unlock()
	why, state := "the source does not run", s.cfg.Sink.State()
	switch {
	case !s.runs.Load():
	case !state.Connected && state.Err != nil:
		why = "the store is not followed: " + state.Err.Error()
	case !state.Connected:
		why = "the first list is not in the table"
	case at == 0:
		why = "etcd has not said what its revision is"
	default:
		why = fmt.Sprintf("the table includes revision %d of the store, not %d", state.Input, at)
	}
	return fmt.Errorf("what etcd has at %q is not in the table: %s: %w", s.cfg.Prefix, why, ctx.Err())
}

// forgetLoads has the store asked again for all calls of Loaded: it may be another one.
func (s *Source[Obj]) forgetLoads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loads {
		l.at = 0
		s.asked.Send()
	}
}

// askForLoads asks the store for its revision, for the calls of Loaded that have begun.
func (s *Source[Obj]) askForLoads(ctx context.Context) error {
	s.mu.Lock()
	loads := slices.Clone(s.loads)
	s.mu.Unlock()
	header, err := s.ask(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range loads {
		if l.at == 0 {
			l.at = header.Revision
		}
	}
	return nil
}

// isLoading reports whether a call of Loaded waits for the watch.
func (s *Source[Obj]) isLoading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.loads) > 0
}

// answerLoads ends the calls of Loaded whose revision the table includes, but for what is wrong.
func (s *Source[Obj]) answerLoads() {
	if !s.complete && (!s.isHolding() || s.list != nil) {
		return // the first list of the store is not in the table
	}
	s.mu.Lock()
	var due []*load
	s.loads = slices.DeleteFunc(s.loads, func(l *load) bool {
		is := l.at > 0 && l.at <= s.revision
		if is {
			due = append(due, l)
		}
		return is
	})
	s.mu.Unlock()
	if len(due) == 0 {
		return
	}
	err := s.wrong()
	for _, l := range due {
		l.err = err
		close(l.ended)
	}
}

// wrong returns why not all that the store has is in the table; nil if it is.
func (s *Source[Obj]) wrong() error {
	errs, bad := s.Bad(maxNamed)
	if more := bad - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("%d further bad keys omitted", more))
	}
	if n := s.Holding(); n > 0 {
		errs = append(errs, fmt.Errorf("the store was replaced: %d row(s) that it does not have are held", n))
	}
	sink := s.cfg.Sink.Snapshot()
	for i, problem := range sink.Problems {
		if i == 0 && sink.Held != nil {
			errs = append(errs, fmt.Errorf("%w: %s", source.ErrHeld, problem))
		} else {
			errs = append(errs, errors.New(problem))
		}
	}
	return errors.Join(errs...)
}
