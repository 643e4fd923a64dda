// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stage is where a transcript is played: a core, and the changes of a table that are
// still to be observed.
type stage struct {
	t      testingT
	core   *Core[row]
	answer strings.Builder

	unobserved []change
	observed   uint64
	// seen are the keys that were observed, in the order in which they first were.
	seen []string

	// round is the round that the block describes, nil if it does not.
	round *scriptedRound
}

type change struct {
	key      string
	revision uint64
	deleted  bool
	settled  bool
	lane     Lane
}

// scriptedRound is what a block says of a round. The core's calls have an order of
// their own: all that is said is gathered first.
type scriptedRound struct {
	now      time.Duration
	settle   map[string]settlement
	rest     *settlement
	returned map[string]bool
}

type settlement struct {
	out Outcome[row]
	at  time.Duration
	as  uint64
}

// statement runs one statement.
func (s *stage) statement(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	if verb != "core" && s.core == nil {
		return fmt.Errorf("no core: a page begins with a core statement")
	}
	switch verb {
	case "core":
		return s.makeCore(rest)
	case "round":
		return s.beginRound(rest)
	case "observe":
		return s.observe(rest)
	case "release":
		return s.release(rest)
	}
	if s.round == nil {
		return fmt.Errorf("no round, or no such statement")
	}
	switch verb {
	case "settle":
		return s.settle(rest)
	case "rest":
		return s.settleRest(rest)
	case "return":
		for key := range strings.FieldsSeq(strings.ReplaceAll(rest, ",", " ")) {
			s.round.returned[key] = true
		}
		return nil
	}
	return fmt.Errorf("no such statement")
}

// makeCore is the statement
//
//	core min=100ms max=1s size=4 [jitter=0.1] [seed=1]
//
// which begins a page: the bounds of the backoff, and the size of a round.
func (s *stage) makeCore(rest string) (err error) {
	cfg := Config[row]{KeyOf: keyOfRow}
	for field := range strings.FieldsSeq(rest) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "min":
			cfg.MinBackoff, err = time.ParseDuration(value)
		case "max":
			cfg.MaxBackoff, err = time.ParseDuration(value)
		case "size":
			cfg.RoundSize, err = strconv.Atoi(value)
		case "jitter":
			cfg.Jitter, err = strconv.ParseFloat(value, 64)
		case "seed":
			cfg.Seed, err = strconv.ParseUint(value, 10, 64)
		default:
			err = fmt.Errorf("no such setting: %q", name)
		}
		if err != nil {
			return err
		}
	}
	*s = stage{t: s.t, core: New(cfg)}
	return nil
}

// beginRound is the statement
//
//	round 100ms
//
// which says that a round begins at a time. It is over at the end of the block.
func (s *stage) beginRound(rest string) error {
	now, err := time.ParseDuration(rest)
	s.round = &scriptedRound{now: now, settle: map[string]settlement{}, returned: map[string]bool{}}
	return err
}

// observe is the statement
//
//	observe a@5, delete b@6, settled c@7
//
// which says what changed in the table: a is wanted since revision 5, b is deleted, the
// status of c asks for nothing. The round observes as much as there is room for, and
// leaves the rest to the next.
func (s *stage) observe(rest string) error {
	for text := range strings.SplitSeq(rest, ",") {
		ch := change{}
		text = strings.TrimSpace(text)
		if after, ok := strings.CutPrefix(text, "delete "); ok {
			text, ch.deleted, ch.lane = after, true, Deletion
		} else if after, ok := strings.CutPrefix(text, "settled "); ok {
			text, ch.settled = after, true
		}
		key, revision, _ := strings.Cut(text, "@")
		var err error
		if ch.revision, err = strconv.ParseUint(revision, 10, 64); err != nil {
			return err
		}
		ch.key = key
		s.unobserved = append(s.unobserved, ch)
	}
	return nil
}

// settle is the statement
//
//	settle a done | failed | terminal | blocked | requeue | void | superseded
//	    ["text"] [after=1s] [lost] [as=@12] [at=120ms]
//
// which says what came of an item: the text of a failure, the delay that the operation
// asked for, that the object changed meanwhile, the revision of the status that was
// written, and when the operation ended, if not as soon as the round began.
func (s *stage) settle(rest string) error {
	key, rest, _ := strings.Cut(rest, " ")
	o, err := s.parseSettlement(rest)
	s.round.settle[key] = o
	return err
}

// settleRest is the statement
//
//	rest done
//
// with the words of settle, which says what came of all items that no other says it of.
func (s *stage) settleRest(rest string) error {
	o, err := s.parseSettlement(rest)
	s.round.rest = &o
	return err
}

var kindsByName = map[string]Kind{
	"done": Done, "failed": Failed, "terminal": FailedForGood, "blocked": BlockedOn,
	"requeue": DoneAgain, "void": Void, "superseded": Superseded,
}

func (s *stage) parseSettlement(rest string) (settlement, error) {
	o := settlement{at: s.round.now}
	if before, quoted, ok := strings.Cut(rest, `"`); ok {
		text, after, closed := strings.Cut(quoted, `"`)
		if !closed {
			return o, fmt.Errorf("the text has no end")
		}
		o.out.Failure, rest = &text, before+after
	}
	words := strings.Fields(rest)
	if len(words) == 0 {
		return o, fmt.Errorf("no outcome")
	}
	kind, ok := kindsByName[words[0]]
	if !ok {
		return o, fmt.Errorf("no such outcome: %q", words[0])
	}
	o.out.Kind = kind
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch name {
		case "after":
			o.out.Delay, err = time.ParseDuration(value)
		case "lost":
			o.out.Lost = true
		case "as":
			o.as, err = strconv.ParseUint(strings.TrimPrefix(value, "@"), 10, 64)
		case "at":
			o.at, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("no such word: %q", word)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// release is the statement
//
//	release a 300ms
//
// which says that a key has what it was blocked on, and when.
func (s *stage) release(rest string) error {
	key, at, _ := strings.Cut(rest, " ")
	now, err := time.ParseDuration(at)
	if err == nil && !s.core.Release(key, now) {
		fmt.Fprintf(&s.answer, "%s: was not blocked\n", key)
	}
	return err
}

// playRound runs the round that the block describes, in the order that the core wants.
func (s *stage) playRound() error {
	r := s.round
	if r == nil {
		return nil
	}
	s.round = nil
	s.core.Begin(r.now, s.core.roundSize)
	s.observeWhatFits()
	items := s.core.Plan()
	s.describePlan(items)
	return s.settleAll(r, items)
}

// settleAll says of every item what came of it, and makes sure that the block speaks of
// the items of the plan, and of no others.
func (s *stage) settleAll(r *scriptedRound, items []Item[row]) error {
	ran := 0
	for i := range items {
		it := &items[i]
		key := it.Obj.key
		o, ok := r.settle[key]
		switch {
		case r.returned[key]:
			continue
		case !ok && r.rest == nil:
			return fmt.Errorf("nothing says what came of %q; %s", key, s.answer.String())
		case !ok:
			o = *r.rest
		}
		delete(r.settle, key)
		o.out.Obj, o.out.Revision = it.Obj, it.Revision
		if o.as > 0 {
			o.out.Revision = o.as
		}
		s.core.Settle(o.at, it, o.out)
		if o.out.Kind != Void && o.out.Kind != Superseded {
			ran++
		}
	}
	for i := len(items) - 1; i >= 0; i-- {
		if key := items[i].Obj.key; r.returned[key] {
			delete(r.returned, key)
			s.core.Return(&items[i])
		}
	}
	s.core.End(ran)
	for key := range r.settle {
		return fmt.Errorf("%q is settled and not in the plan; %s", key, s.answer.String())
	}
	for key := range r.returned {
		return fmt.Errorf("%q is returned and not in the plan; %s", key, s.answer.String())
	}
	return nil
}

func (s *stage) observeWhatFits() {
	for len(s.unobserved) > 0 && s.core.Room() > 0 {
		ch := s.unobserved[0]
		s.unobserved = s.unobserved[1:]
		s.observed = ch.revision
		if !slices.Contains(s.seen, ch.key) {
			s.seen = append(s.seen, ch.key)
		}
		if ch.settled {
			s.core.ObserveSettled(row{key: ch.key}, ch.revision)
		} else {
			s.core.Observe(row{key: ch.key}, ch.revision, ch.deleted, ch.lane)
		}
	}
}

// describePlan answers with the plan: "again" for what waited, "delete" for what has to
// leave the target, and which attempt it is if others have failed.
func (s *stage) describePlan(items []Item[row]) {
	texts := make([]string, len(items))
	for i := range items {
		it := &items[i]
		var text strings.Builder
		if it.Again {
			text.WriteString("again ")
		}
		if it.Deleted {
			text.WriteString("delete ")
		}
		fmt.Fprintf(&text, "%s@%d", it.Obj.key, it.Revision)
		if n := it.Attempt(); n > 0 {
			fmt.Fprintf(&text, " (attempt %d)", n+1)
		}
		texts[i] = text.String()
	}
	if len(texts) == 0 {
		texts = []string{"nothing"}
	}
	fmt.Fprintf(&s.answer, "plan: %s\n", strings.Join(texts, ", "))
}

// describe answers with the state of every key and what the core says as a whole.
func (s *stage) describe() {
	var reconciled, left []string
	for _, key := range s.seen {
		if e := s.core.entries[key]; e != nil {
			s.describeEntry(e)
		} else {
			reconciled = append(reconciled, key)
		}
	}
	if len(reconciled) > 0 {
		fmt.Fprintf(&s.answer, "reconciled: %s\n", strings.Join(reconciled, ", "))
	}
	for _, ch := range s.unobserved {
		left = append(left, fmt.Sprintf("%s@%d", ch.key, ch.revision))
	}
	if len(left) > 0 {
		fmt.Fprintf(&s.answer, "not observed yet: %s\n", strings.Join(left, ", "))
	}
	next := "nothing is due"
	if at, ok := s.core.NextDue(); ok {
		next = fmt.Sprintf("next due at %s", at)
	}
	fmt.Fprintf(&s.answer, "%s; low watermark %d, attempted up to %d, failing %d\n",
		next, s.core.LowWatermark(), s.core.Attempted(s.observed), s.core.Failing())
}

func (s *stage) describeEntry(e *entry[row]) {
	fmt.Fprintf(&s.answer, "%s: %s", e.key, e.state)
	if e.pos >= 0 {
		preposition := "until"
		if e.state == Retry || e.state == Requeue {
			preposition = "at"
		}
		fmt.Fprintf(&s.answer, " %s %s", preposition, e.dueAt)
	}
	if e.deleted {
		s.answer.WriteString(", to be deleted")
	}
	if e.owedPos >= 0 {
		fmt.Fprintf(&s.answer, ", owes %d", e.since)
	}
	if e.revision != e.since || e.owedPos < 0 {
		fmt.Fprintf(&s.answer, ", stands at %d", e.revision)
	}
	if e.failures > 0 {
		fmt.Fprintf(&s.answer, ", failed %d in a row", e.failures)
	}
	if e.failure != nil {
		fmt.Fprintf(&s.answer, ", %q", *e.failure)
	}
	s.answer.WriteString("\n")
}
