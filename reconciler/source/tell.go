// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/text"
)

// staleAfter is for how long a source may be away before health says so, and how often it says so again.
const staleAfter = time.Minute

// report is what health was told.
type report struct {
	// problems is empty if there are none, and told reports whether there was a report at all.
	problems string
	told     bool
	// rejects changes when the objects in error do. cause is the text of the error of the connection.
	rejects int
	cause   string
}

// tell reports the health of the source if that is news.
func (s *Sink[Obj]) tell() {
	if s.cfg.Health == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err, news := s.next(time.Now())
	if !news {
		return
	}
	s.told = next
	if next.problems == "" {
		s.cfg.Health.OK("OK")
	} else {
		s.cfg.Health.Degraded(next.problems, err)
	}
}

// next returns the present report, the error that goes with it, and whether it is another than the last
// one. The caller holds mu.
func (s *Sink[Obj]) next(now time.Time) (next report, err error, news bool) {
	stale := s.staleText(now)
	var problems []string
	if stale != "" {
		problems = append(problems, stale)
	}
	if long := s.running.Long(); long != "" {
		problems = append(problems, long)
	}
	if s.refused {
		problems = append(problems, "an empty list was refused")
	}
	if n := len(s.rejected) + s.unnamed; n > 0 {
		problems = append(problems, fmt.Sprintf("%d object(s) rejected", n))
	}
	next = report{problems: strings.Join(problems, ", "), told: true, rejects: s.rejects}
	if stale != "" {
		next.cause = s.cause
	}
	last := s.told
	if s.ended || next == last || next.problems == "" && !last.told && !s.listed {
		return next, nil, false
	}
	if next.problems == "" {
		return next, nil, last.problems != "" || !last.told
	}
	var errs []error
	if next.cause != "" {
		errs = append(errs, errors.New(text.Printable(next.cause)))
	}
	if s.refused {
		errs = append(errs, fmt.Errorf("%w: Config.AllowEmpty is false", ErrEmpty))
	}
	if lines := s.rejectedLines(); len(lines) > 0 {
		errs = append(errs, errors.New(strings.Join(lines, "\n")))
	}
	return next, errors.Join(errs...), true
}

// rejectedLines returns a line for each of the first objects in error, by key, and one with the number
// of the others. The caller holds mu.
func (s *Sink[Obj]) rejectedLines() (lines []string) {
	var first []string
	for key := range s.rejected {
		if at, _ := slices.BinarySearch(first, key); at < health.MaxExamples {
			first = slices.Insert(first, at, key)
			first = first[:min(len(first), health.MaxExamples)]
		}
	}
	for _, key := range first {
		lines = append(lines, text.Printable(s.rejected[key].Error()))
	}
	if s.unnamed > 0 {
		lines = append(lines, fmt.Sprintf("%d object(s) without a usable key", s.unnamed))
	}
	if more := len(s.rejected) - len(first); more > 0 {
		lines = append(lines, fmt.Sprintf("%d further objects omitted", more))
	}
	return lines
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

// rearm starts the timer for the next report about a stale source, and stops it if the source is not
// stale. The caller holds mu.
func (s *Sink[Obj]) rearm() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.cfg.Health != nil && s.stale() {
		s.timer = time.AfterFunc(staleAfter-time.Since(s.state.Since)%staleAfter, s.tick)
	}
}

// tick is called by the timer.
func (s *Sink[Obj]) tick() {
	s.mu.Lock()
	s.rearm()
	s.mu.Unlock()
	s.tell()
}
