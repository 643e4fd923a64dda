// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.txt; commit only differences that you understand")

// TestTranscripts plays the transcripts in testdata. Each is a page of prose and blocks. A block
// has statements, a line of dashes, and the core's exact answer. The statements are explained in
// transcript_commands_test.go.
//
// The same calls with the same seed give the same plans, byte for byte (DESIGN section 2).
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			page, err := os.ReadFile(file)
			require.NoError(t, err)
			played, err := play(t, string(page))
			require.NoError(t, err, "in %s", file)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(played), 0o644))
				return
			}
			require.Equal(t, string(page), played, "run go test -update and review the difference")
		})
	}
}

const dashes = "----"

// play returns a page with the core's current answers in place of the recorded ones.
func play(t testingT, page string) (string, error) {
	s := &stage{t: t}
	var out strings.Builder
	line := 1
	for i, paragraph := range strings.Split(strings.TrimRight(page, "\n"), "\n\n") {
		if i > 0 {
			out.WriteString("\n\n")
		}
		statements, _, isBlock := strings.Cut(paragraph+"\n", "\n"+dashes+"\n")
		if !isBlock {
			if !isProse(paragraph) {
				return "", fmt.Errorf("line %d: statements without a line of %s below", line, dashes)
			}
			out.WriteString(paragraph)
		} else {
			answer, err := s.block(statements)
			if err != nil {
				return "", fmt.Errorf("block at line %d: %w", line, err)
			}
			out.WriteString(statements + "\n" + dashes + "\n" + strings.TrimRight(answer, "\n"))
		}
		line += strings.Count(paragraph, "\n") + 2
	}
	out.WriteString("\n")
	return out.String(), nil
}

// isProse reports whether a paragraph has only comments.
func isProse(paragraph string) bool {
	for _, line := range strings.Split(paragraph, "\n") {
		if !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// block runs the statements of a block, and returns the core's answer.
func (s *stage) block(statements string) (string, error) {
	s.answer.Reset()
	for _, line := range strings.Split(statements, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.statement(line); err != nil {
			return "", fmt.Errorf("%q: %w", line, err)
		}
	}
	if err := s.playRound(); err != nil {
		return "", err
	}
	if s.core == nil {
		return "", fmt.Errorf("no core: a page begins with a core statement")
	}
	s.describe()
	return s.answer.String(), nil
}

// playRound runs the round of a block, in the order of calls that the core requires.
func (s *stage) playRound() error {
	r := s.round
	if r == nil {
		return nil
	}
	s.round = nil
	if !r.catchUp {
		// The rest of the catch-up cursor's changes is part of main's next snapshot.
		s.fresh = nil
	}
	s.core.Begin(r.now, r.size, r.catchUp || len(r.launched) > 0)
	for r.size == 0 && len(s.fresh)+len(s.unobserved) > 0 {
		for _, from := range []*[]change{&s.fresh, &s.unobserved} {
			if ch, ok := s.nextOf(from); ok {
				s.core.Observe(ch)
			}
		}
	}
	ops := s.core.planFrom(stagedSource{stage: s, catchUp: r.catchUp})
	s.describeOps(ops)
	return s.settleAll(r, ops)
}

// settleAll settles, launches or recalls each operation, and requires that the block names only operations of the
// round.
func (s *stage) settleAll(r *scriptedRound, items []Operation[row]) error {
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
			launched := *it
			s.inFlight[key] = &launched
			continue
		case !ok && r.rest == nil:
			return fmt.Errorf("%q has no outcome; %s", key, s.answer.String())
		case !ok:
			o = *r.rest
		}
		delete(r.settle, key)
		s.settleItem(it, o)
	}
	for i := len(items) - 1; i >= 0; i-- {
		if key := items[i].Obj.key; r.returned[key] {
			delete(r.returned, key)
			s.core.Recall(r.now, &items[i])
		}
	}
	for named, n := range map[string]int{
		"settled": len(r.settle), "renewed": len(r.renewed), "launched": len(r.launched), "returned": len(r.returned),
	} {
		if n > 0 {
			return fmt.Errorf("%d keys are %s and not run; %s", n, named, s.answer.String())
		}
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

// stagedSource is the source of the core of a stage.
type stagedSource struct {
	anyLane
	*stage
	catchUp bool
}

// Next returns the next change of a lane. Without a catch-up cursor changes come in one order.
func (s stagedSource) Next(lane Lane) (c Change[row], ok bool) {
	switch {
	case lane > Refresh:
		return c, false
	case !s.catchUp:
		for len(s.unobserved) > 0 && s.unobserved[0].settled {
			one := s.unobserved[:1]
			s.observed, s.unobserved = one[0].revision, s.unobserved[1:]
			s.nextOf(&one)
		}
		if len(s.unobserved) == 0 || s.unobserved[0].lane != lane {
			return c, false
		}
		return s.nextOf(&s.unobserved)
	case lane == Fresh:
		return s.nextOf(&s.fresh)
	}
	i := slices.IndexFunc(s.unobserved, func(ch change) bool { return ch.settled || ch.lane == lane })
	if i < 0 {
		return c, false
	}
	of := []change{s.unobserved[i]}
	s.unobserved = slices.Delete(s.unobserved, i, i+1)
	if c, ok = s.nextOf(&of); !ok {
		return s.Next(lane)
	}
	return c, ok
}

// nextOf returns the next change of a list that asks for an operation. It tells the core of the others.
func (s *stage) nextOf(from *[]change) (c Change[row], ok bool) {
	for len(*from) > 0 {
		ch := (*from)[0]
		*from = (*from)[1:]
		if from == &s.unobserved || ch.lane != Fresh {
			s.observed = max(s.observed, ch.revision)
		}
		s.see(ch.key)
		switch {
		case ch.unset:
			s.core.ObserveSettled(ch.row, ch.revision, RowUnset)
		case ch.settled:
			s.core.ObserveSettled(ch.row, ch.revision, RowDone)
		default:
			return Change[row]{ch.row, ch.revision, ch.revision, ch.deleted, ch.lane, false}, true
		}
	}
	return c, false
}

func (s *stage) see(key string) {
	if !slices.Contains(s.seen, key) {
		s.seen = append(s.seen, key)
	}
}

// describeOps answers with the operations of the round. One is marked "again" if its key waited; "fresh",
// "refresh" or "resumed" by its lane; "delete" if the object was deleted; and with its attempt if
// others have failed.
func (s *stage) describeOps(items []Operation[row]) {
	texts := make([]string, len(items))
	for i := range items {
		it := &items[i]
		var text strings.Builder
		if it.Turn.Waited {
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
	fmt.Fprintf(&s.answer, "run: %s\n", strings.Join(texts, ", "))
}

// describe answers with the state of every key, and the core's due time, watermark and counts.
func (s *stage) describe() {
	var reconciled, left []string
	for _, key := range s.seen {
		if e := s.core.keys.entries[key]; e != nil {
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
	next := "nothing is due"
	if at, ok := s.core.NextDue(); ok {
		next = fmt.Sprintf("next due at %s", at)
	}
	observed := s.observed
	for _, ch := range s.unobserved {
		observed = min(observed, ch.revision-1)
	}
	fmt.Fprintf(&s.answer, "%s; low watermark %d, attempted up to %d, failing %d\n",
		next, s.core.Index.LowWatermark(), s.core.Index.Attempted(observed), s.core.Index.figures.Failing)
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
	if e.state == Ready && e.version.lane != Backlog && e.version.lane != Deletion {
		fmt.Fprintf(&s.answer, " in lane %s", e.version.lane)
	}
	if e.state == Queued {
		fmt.Fprintf(&s.answer, " behind %s", e.group.holder.key)
	}
	v := &e.version
	if v.deleted {
		s.answer.WriteString(", to be deleted")
	}
	if u, ok := s.core.UnreconciledOf(e.version.obj); ok {
		fmt.Fprintf(&s.answer, ", unreconciled since %d", u.Since)
	}
	if v.revision != v.since || e.indexed.since == 0 {
		fmt.Fprintf(&s.answer, ", stands at %d", v.revision)
	}
	if e.later != nil {
		fmt.Fprintf(&s.answer, ", changed at %d meanwhile", e.later.revision)
	}
	if e.past.failures > 0 {
		fmt.Fprintf(&s.answer, ", failed %d in a row", e.past.failures)
	}
	if e.past.result == hasFailed {
		fmt.Fprintf(&s.answer, ", %q", e.past.failure())
	}
	s.answer.WriteString("\n")
}
