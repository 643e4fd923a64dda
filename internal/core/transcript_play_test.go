// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"slices"
	"strings"
)

// playRound runs the round of a block, in the order of calls that the core requires.
func (s *stage) playRound() error {
	r := s.round
	if r == nil {
		return nil
	}
	s.round = nil
	allowed, _ := s.core.Allowance(r.now)
	s.core.Begin(r.now, min(r.size, allowed), r.maxFresh)
	if r.maxFresh == 0 {
		// The rest of the catch-up cursor's changes is part of main's next snapshot.
		s.fresh = nil
	}
	s.observeWhatFits()
	items := s.core.Plan()
	s.describePlan(items)
	return s.settleAll(r, items)
}

// settleAll settles, launches or puts back each item, and requires that the block names only items
// of the plan.
func (s *stage) settleAll(r *scriptedRound, items []Operation[row]) error {
	ran := 0
	for i := range items {
		it := &items[i]
		key := it.Obj.key
		if renewed, ok := r.renewed[key]; ok {
			delete(r.renewed, key)
			if !s.core.Renew(it, renewed, renewed.revision, renewed.revision) {
				continue
			}
		}
		o, ok := r.settle[key]
		switch {
		case r.returned[key]:
			continue
		case r.launched[key]:
			delete(r.launched, key)
			s.core.Launch(it)
			launched := *it
			s.inFlight[key] = &launched
			ran++
			continue
		case !ok && r.rest == nil:
			return fmt.Errorf("%q has no outcome; %s", key, s.answer.String())
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
			s.core.PutBack(&items[i])
		}
	}
	s.core.End(ran)
	for key := range r.settle {
		return fmt.Errorf("%q is settled and not in the plan; %s", key, s.answer.String())
	}
	for key := range r.renewed {
		return fmt.Errorf("%q is renewed and not in the plan; %s", key, s.answer.String())
	}
	for key := range r.launched {
		return fmt.Errorf("%q is launched and not in the plan; %s", key, s.answer.String())
	}
	for key := range r.returned {
		return fmt.Errorf("%q is returned and not in the plan; %s", key, s.answer.String())
	}
	return nil
}

func (s *stage) settleItem(it *Operation[row], o settlement) {
	o.out.Object, o.out.NewRevision = it.Obj, it.Revision
	if o.as > 0 {
		o.out.NewRevision = o.as
	}
	s.core.Settle(o.at, it, o.out)
}

// observeWhatFits hands over the changes of the catch-up cursor and then those of main, each in
// order and until there is no room for the next.
func (s *stage) observeWhatFits() {
	for len(s.fresh) > 0 && !s.core.Full(Fresh) {
		s.observeOne(s.fresh[0])
		s.fresh = s.fresh[1:]
	}
	for len(s.unobserved) > 0 && (s.unobserved[0].settled || !s.core.Full(s.unobserved[0].lane)) {
		s.observed = s.unobserved[0].revision
		s.observeOne(s.unobserved[0])
		s.unobserved = s.unobserved[1:]
	}
}

func (s *stage) observeOne(ch change) {
	s.see(ch.key)
	if ch.settled {
		says := RowDone
		if ch.unset {
			says = RowUnset
		}
		s.core.ObserveSettled(ch.row, ch.revision, says)
	} else {
		s.core.see(ch.row, ch.revision, ch.deleted, ch.lane)
	}
}

func (s *stage) see(key string) {
	if !slices.Contains(s.seen, key) {
		s.seen = append(s.seen, key)
	}
}

// describePlan answers with the plan. An item is marked "again" if its key waited; "fresh",
// "refresh" or "resumed" by its lane; "delete" if the object was deleted; and with its attempt if
// others have failed.
func (s *stage) describePlan(items []Operation[row]) {
	texts := make([]string, len(items))
	for i := range items {
		it := &items[i]
		var text strings.Builder
		if it.Again {
			text.WriteString("again ")
		}
		if it.Lane() != Backlog && it.Lane() != Deletion {
			text.WriteString(it.Lane().String() + " ")
		}
		if it.Deleted {
			text.WriteString("delete ")
		}
		fmt.Fprintf(&text, "%s@%d", it.Obj.key, it.Revision)
		if n := int(it.Failures); n > 0 {
			fmt.Fprintf(&text, " (attempt %d)", n+1)
		}
		texts[i] = text.String()
	}
	if len(texts) == 0 {
		texts = []string{"nothing"}
	}
	fmt.Fprintf(&s.answer, "plan: %s\n", strings.Join(texts, ", "))
}

// describe answers with the state of every key, and the core's due time, watermark and counts.
func (s *stage) describe() {
	var reconciled, left []string
	for _, key := range s.seen {
		if e := s.core.entries[key]; e != nil {
			s.describeEntry(e)
		} else if !slices.ContainsFunc(s.unobserved, func(ch change) bool { return ch.key == key }) {
			reconciled = append(reconciled, key)
		}
	}
	if len(reconciled) > 0 {
		fmt.Fprintf(&s.answer, "reconciled: %s\n", strings.Join(reconciled, ", "))
	}
	for _, ch := range slices.Concat(s.fresh, s.unobserved) {
		left = append(left, fmt.Sprintf("%s@%d", ch.key, ch.revision))
	}
	if len(left) > 0 {
		fmt.Fprintf(&s.answer, "not observed yet: %s\n", strings.Join(left, ", "))
	}
	for _, b := range s.core.OpenBreakers(100) {
		which := "breaker"
		if b.Class != allErrors {
			which += " of class " + b.Class
		}
		fmt.Fprintf(&s.answer, "%s: open since %s, next probes at %s, %q\n", which, b.Since, b.ProbeAt, b.Failure)
	}
	next := "nothing is due"
	if at, ok := s.core.NextDue(); ok {
		next = fmt.Sprintf("next due at %s", at)
	}
	fmt.Fprintf(&s.answer, "%s; low watermark %d, attempted up to %d, failing %d\n",
		next, s.core.LowWatermark(), s.core.Attempted(s.observed), s.core.NumFailing())
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
	if e.state == Ready && e.lane != Backlog && e.lane != Deletion {
		fmt.Fprintf(&s.answer, " in lane %s", e.lane)
	}
	if e.state == Queued {
		fmt.Fprintf(&s.answer, " behind %s", e.group.holder.key)
	}
	v := e.running()
	if v.deleted {
		s.answer.WriteString(", to be deleted")
	}
	if u, ok := s.core.UnreconciledOf(e.obj); ok {
		fmt.Fprintf(&s.answer, ", unreconciled since %d", u.Since)
	}
	if v.revision != v.since || e.indexed.since == 0 {
		fmt.Fprintf(&s.answer, ", stands at %d", v.revision)
	}
	if e.runs != nil {
		fmt.Fprintf(&s.answer, ", changed at %d meanwhile", e.revision)
	}
	if e.failures > 0 {
		fmt.Fprintf(&s.answer, ", failed %d in a row", e.failures)
	}
	if e.result == hasFailed {
		fmt.Fprintf(&s.answer, ", %q", e.failure())
	}
	s.answer.WriteString("\n")
}
