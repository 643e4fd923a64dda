// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/text"
)

// staleAfter is for how long a source may be away before health says so, and how often it says so again.
const staleAfter = time.Minute

// tell reports the health of the source if that is news. The timer calls it, too.
func (s *Sink[Obj]) tell() {
	if s.cfg.Health == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rearm()
	problems, err := s.problems()
	report := fmt.Sprintf("%s\n%v", problems, err)
	if s.ended || report == s.told || problems == "" && s.told == "" && !s.listed {
		return
	}
	s.told = report
	if problems == "" {
		s.cfg.Health.OK("OK")
	} else {
		s.cfg.Health.Degraded(problems, err)
	}
}

// problems returns what is wrong now, and the error that goes with it; empty if nothing is. The caller holds mu.
func (s *Sink[Obj]) problems() (problems string, err error) {
	var all []string
	var errs []error
	if stale := s.staleText(time.Now()); stale != "" {
		all = append(all, stale)
		if s.state.Err != nil {
			errs = append(errs, errors.New(text.Printable(causeOf(s.state.Err))))
		}
	}
	if long := s.running.Long(); long != "" {
		all = append(all, long)
	}
	if s.refused {
		all = append(all, "an empty list was refused")
		errs = append(errs, fmt.Errorf("%w: Config.AllowEmpty is false", ErrEmpty))
	}
	if s.hold != nil {
		all = append(all, fmt.Sprintf("%d deletion(s) held", len(s.hold.steps)))
		errs = append(errs, errors.New(s.hold.text(s.Input())))
	}
	if n := len(s.reported); n > 0 {
		all = append(all, fmt.Sprintf("%d problem(s) of the source", n))
		for _, problem := range s.reported[:min(n, health.MaxExamples)] {
			errs = append(errs, errors.New(text.Printable(causeOf(problem.Err))))
		}
		if more := n - health.MaxExamples; more > 0 {
			errs = append(errs, fmt.Errorf("%d further problems omitted", more))
		}
	}
	if n := s.rejected.num(); n > 0 {
		all = append(all, fmt.Sprintf("%d object(s) rejected", n))
	}
	errs = append(errs, s.rejected.some()...)
	return strings.Join(all, ", "), errors.Join(errs...)
}

// some returns the first objects in error, by key, and the number of the others.
func (r rejections) some() (errs []error) {
	first := text.FirstKeys(r.byKey, health.MaxExamples)
	for _, key := range first {
		errs = append(errs, errors.New(text.Printable(r.byKey[key].Error())))
	}
	if r.unnamed > 0 {
		errs = append(errs, fmt.Errorf("%d object(s) without a usable key", r.unnamed))
	}
	if more := len(r.byKey) - len(first); more > 0 {
		errs = append(errs, fmt.Errorf("%d further objects omitted", more))
	}
	return errs
}

// staleText returns since when the source is away, or its first list missing; empty if neither is, or
// not for long. The caller holds mu.
func (s *Sink[Obj]) staleText(now time.Time) string {
	age := now.Sub(s.state.Since)
	if !s.stale() || age < staleAfter {
		return ""
	}
	what := "without a connection"
	if s.state.Connected {
		what = "connected without a full list"
	}
	return fmt.Sprintf("%s for %s, since %s", what, text.Duration(age.Truncate(staleAfter)), text.Stamp(s.state.Since))
}

// stale reports whether the source is away, or its first list missing. The caller holds mu.
func (s *Sink[Obj]) stale() bool { return !s.ended && (!s.state.Connected || !s.listed) }

// rearm sets the timer to when the next report may be due: about a stale source, or about a function that hangs.
// The caller holds mu.
func (s *Sink[Obj]) rearm() {
	if s.timer == nil {
		return
	}
	s.timer.Stop()
	var due []time.Duration
	if s.stale() {
		due = append(due, staleAfter-time.Since(s.state.Since)%staleAfter)
	}
	if !s.began.IsZero() {
		due = append(due, guard.LongAfter-time.Since(s.began)%guard.LongAfter)
	}
	if len(due) > 0 {
		s.timer.Reset(slices.Min(due))
	}
}
