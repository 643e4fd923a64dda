// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"slices"
	"strings"
)

// playRound runs the round that the block describes, in the order that the core wants.
func (s *stage) playRound() error {
	r := s.round
	if r == nil {
		return nil
	}
	s.round = nil
	allowed, _ := s.core.Allowance(r.now)
	s.core.Begin(r.now, min(r.size, allowed))
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
		case r.launched[key]:
			delete(r.launched, key)
			s.core.Launch(it)
			launched := *it
			s.flying[key] = &launched
			ran++
			continue
		case !ok && r.rest == nil:
			return fmt.Errorf("nothing says what came of %q; %s", key, s.answer.String())
		case !ok:
			o = *r.rest
		}
		delete(r.settle, key)
		s.settleItem(it, o)
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
	for key := range r.launched {
		return fmt.Errorf("%q is launched and not in the plan; %s", key, s.answer.String())
	}
	for key := range r.returned {
		return fmt.Errorf("%q is returned and not in the plan; %s", key, s.answer.String())
	}
	return nil
}

func (s *stage) settleItem(it *Item[row], o settlement) {
	o.out.Obj, o.out.Revision = it.Obj, it.Revision
	if o.as > 0 {
		o.out.Revision = o.as
	}
	s.core.Settle(o.at, it, o.out)
}

// observeWhatFits observes the changes in their order, or, if there is a backlog, what is
// fresh beside it.
func (s *stage) observeWhatFits() {
	ofBacklog := func(ch change) bool { return ch.lane == Backlog }
	if !slices.ContainsFunc(s.unobserved, ofBacklog) {
		s.observeWhile(func(change) bool { return true }, s.core.Room)
		return
	}
	fresh := func(ch change) bool { return !ofBacklog(ch) }
	observed := s.observed
	s.observeWhile(fresh, func() int { return s.core.RoomFor(false) })
	latest := s.observed
	s.observed = observed
	s.observeWhile(ofBacklog, func() int { return s.core.RoomFor(true) })
	if !slices.ContainsFunc(s.unobserved, ofBacklog) {
		s.observed = max(s.observed, latest)
	}
}

// observeWhile observes changes of a kind while there is room.
func (s *stage) observeWhile(kind func(change) bool, room func() int) {
	var left []change
	for i, ch := range s.unobserved {
		if room() == 0 {
			left = append(left, s.unobserved[i:]...)
			break
		}
		if !kind(ch) {
			left = append(left, ch)
			continue
		}
		s.observed = ch.revision
		s.see(ch.key)
		if ch.settled {
			s.core.ObserveSettled(row{key: ch.key}, ch.revision)
		} else {
			s.core.Observe(row{key: ch.key}, ch.revision, ch.deleted, ch.lane)
		}
	}
	s.unobserved = left
}

func (s *stage) see(key string) {
	if !slices.Contains(s.seen, key) {
		s.seen = append(s.seen, key)
	}
}

// describePlan answers with the plan: "again" for what waited, "backlog" and "refresh" for
// what is in these lanes, "delete" for what has to leave the target, and which attempt it
// is if others have failed.
func (s *stage) describePlan(items []Item[row]) {
	texts := make([]string, len(items))
	for i := range items {
		it := &items[i]
		var text strings.Builder
		if it.Again {
			text.WriteString("again ")
		}
		if it.Lane() == Backlog || it.Lane() == Refresh {
			text.WriteString(it.Lane().String() + " ")
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
	for _, b := range s.core.OpenBreakers() {
		which := "breaker"
		if b.Class != all {
			which += " of class " + b.Class
		}
		fmt.Fprintf(&s.answer, "%s: open since %s, next probes at %s, %q\n", which, b.Since, b.ProbeAt, b.Failure)
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
	if e.state == Ready && e.lane >= Backlog {
		fmt.Fprintf(&s.answer, " in lane %s", e.lane)
	}
	if e.state == Queued {
		fmt.Fprintf(&s.answer, " behind %s", e.group.holder.key)
	}
	if e.deleted {
		s.answer.WriteString(", to be deleted")
	}
	if debt, owes := s.core.DebtOf(e.obj); owes {
		fmt.Fprintf(&s.answer, ", owes %d", debt.Since)
	}
	if e.revision != e.since || e.owedPos < 0 {
		fmt.Fprintf(&s.answer, ", stands at %d", e.revision)
	}
	if n, noted := s.core.notes[e]; noted {
		fmt.Fprintf(&s.answer, ", changed at %d meanwhile", n.item.Revision)
	}
	if e.failures > 0 {
		fmt.Fprintf(&s.answer, ", failed %d in a row", e.failures)
	}
	if e.failure != nil {
		fmt.Fprintf(&s.answer, ", %q", *e.failure)
	}
	s.answer.WriteString("\n")
}
