// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// stage plays a transcript: it has a core, and the changes of a table that are still to be
// observed.
type stage struct {
	t      testingT
	core   *Core[row]
	answer strings.Builder

	// unobserved has the changes that main has not handed over, fresh those of the catch-up cursor.
	// observed is the revision up to which main has handed over changes.
	unobserved, fresh []change
	observed          uint64
	// pendingIDs has the pending ID of each key's last change.
	pendingIDs map[string]uint64
	// inFlight has the launched items by key.
	inFlight map[string]*Operation[row]
	// seen has the observed keys, in the order of their first observation.
	seen []string

	// round is the round of the block; nil if it has none.
	round *scriptedRound
}

type change struct {
	row
	settled, unset bool
}

// scriptedRound is the round that a block describes. The statements are collected first, because
// the core's calls have an order of their own.
type scriptedRound struct {
	now  time.Duration
	size int
	// catchUp: there is a catch-up cursor.
	catchUp bool
	// renewed has the later versions in the table of planned items.
	renewed  map[string]row
	settle   map[string]settlement
	rest     *settlement
	returned map[string]bool
	launched map[string]bool
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
	statements := map[string]func(rest string) error{
		"core": s.makeCore, "round": s.beginRound, "observe": s.observe, "release": s.release, "finish": s.finish,
		"pause": s.pause, "resume": s.resume, "orphan": s.addOrphan,
		"close": s.closeBreaker,
	}
	if s.round != nil {
		maps.Copy(statements, map[string]func(rest string) error{
			"settle": s.settle, "rest": s.settleRest, "renew": s.renew,
			"return": func(rest string) error { name(rest, s.round.returned); return nil },
			"launch": func(rest string) error { name(rest, s.round.launched); return nil },
		})
	}
	if run := statements[verb]; run != nil {
		return run(rest)
	}
	return fmt.Errorf("no round, or no such statement")
}

// set sets the variables that words of a text name, as in
//
//	min=100ms size=4 groups
func set(text string, variables map[string]any) (err error) {
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		switch variable := variables[name].(type) {
		case *bool:
			*variable = true
		case *int:
			*variable, err = strconv.Atoi(value)
		case *uint64:
			*variable, err = strconv.ParseUint(strings.TrimPrefix(value, "@"), 10, 64)
		case *float64:
			*variable, err = strconv.ParseFloat(value, 64)
		case *time.Duration:
			*variable, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("no such word: %q", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// name adds the keys of a list to a set. It is used for the statement
//
//	return a, b
//
// whose items are put back, because the round is cut short, and for
//
//	launch a, b
//
// whose operations go on beyond the round.
func name(list string, set map[string]bool) {
	for key := range strings.FieldsSeq(strings.ReplaceAll(list, ",", " ")) {
		set[key] = true
	}
}

// makeCore runs the statement
//
//	core min=100ms max=1s size=4 [jitter=0.1] [seed=1] [groups]
//
// which begins a page. It sets the bounds of the backoff and the size of a round. With groups, the
// part of a key before its slash is its group.
func (s *stage) makeCore(rest string) (err error) {
	cfg := Config[row]{KeyOf: keyOfRow, GroupOf: groupOfKey, SamePending: samePending}
	var grouping bool
	err = set(rest, map[string]any{
		"min": &cfg.MinBackoff, "max": &cfg.MaxBackoff, "size": &cfg.RoundSize, "jitter": &cfg.Jitter, "seed": &cfg.Seed,
		"groups": &grouping,
	})
	*s = stage{t: s.t, core: New(cfg), inFlight: map[string]*Operation[row]{}, pendingIDs: map[string]uint64{}}
	s.core.SetGrouping(grouping)
	return err
}

func groupOfKey(r row) string {
	group, _, grouped := strings.Cut(r.key, "/")
	if !grouped {
		return ""
	}
	return group
}

// beginRound runs the statement
//
//	round 100ms [size=2] [catchup]
//
// It begins a round at a time; the round ends with the block. size bounds its operations, by default to
// the round size. In a round of size 0, all changes are observed, and those that could run wait in their lanes.
// catchup means that there is a catch-up cursor.
func (s *stage) beginRound(rest string) (err error) {
	at, settings, _ := strings.Cut(rest, " ")
	s.round = &scriptedRound{
		size: s.core.roundSize, settle: map[string]settlement{}, renewed: map[string]row{},
		returned: map[string]bool{}, launched: map[string]bool{},
	}
	if err := set(settings, map[string]any{"size": &s.round.size, "catchup": &s.round.catchUp}); err != nil {
		return err
	}
	s.round.now, err = time.ParseDuration(at)
	return err
}

// observe runs the statement
//
//	observe a@5, delete b@6, settled c@7, unset d@8, refresh e@9, echo f@10, fresh g@11
//
// It adds changes to the table: a is Pending at revision 5, b is deleted, the status of c asks for
// nothing, d has lost its status, e is to be refreshed, and f was written by another writer and
// asks for the same as before. The main cursor reads these, and the catch-up cursor reads g. The
// round observes what there is room for, and leaves the rest to the next round.
func (s *stage) observe(rest string) error {
	for text := range strings.SplitSeq(rest, ",") {
		text = strings.TrimSpace(text)
		last := strings.LastIndex(text, " ") + 1
		ch := change{}
		var err error
		if ch.key, ch.revision, err = parseVersion(text[last:]); err != nil {
			return err
		}
		var echo, refresh, fresh bool
		if err := set(text[:last], map[string]any{
			"delete": &ch.deleted, "settled": &ch.settled, "unset": &ch.unset,
			"refresh": &refresh, "echo": &echo, "fresh": &fresh,
		}); err != nil {
			return err
		}
		ch.status, ch.settled = statusPending, ch.settled || ch.unset
		switch {
		case ch.deleted:
			ch.lane = Deletion
		case refresh:
			ch.lane = Refresh
		case fresh:
			ch.lane = Fresh
		default:
			ch.lane = Backlog
		}
		ch.pendingID = s.pendingID(ch.key, echo)
		if ch.lane == Fresh {
			s.fresh = append(s.fresh, ch)
		} else {
			s.unobserved = append(s.unobserved, ch)
		}
	}
	return nil
}

// pendingID returns the pending ID of a change: the key's last one if the change asks for the same,
// else a new one.
func (s *stage) pendingID(key string, same bool) uint64 {
	if !same {
		s.pendingIDs[key]++
	}
	return s.pendingIDs[key]
}

// renew runs the statement
//
//	renew a@12, echo b@13
//
// It gives planned items the later versions that the table has when they are about to be run. echo
// marks a version that asks for the same.
func (s *stage) renew(rest string) error {
	for text := range strings.SplitSeq(rest, ",") {
		text, same := strings.CutPrefix(strings.TrimSpace(text), "echo ")
		key, revision, err := parseVersion(text)
		if err != nil {
			return err
		}
		s.round.renewed[key] = row{key: key, revision: revision, status: statusPending, pendingID: s.pendingID(key, same)}
	}
	return nil
}

// parseVersion returns the key and the revision of a text like a@5.
func parseVersion(text string) (key string, revision uint64, err error) {
	key, number, _ := strings.Cut(text, "@")
	revision, err = strconv.ParseUint(number, 10, 64)
	return key, revision, err
}

// settle runs the statement
//
//	settle a done | failed | terminal | blocked | requeue | deleting | void | superseded
//	    ["text"] [after=1s] [backoff] [lost] [as=@12] [at=120ms]
//	    [jitter=0.5]
//
// It gives an item its outcome: the text of a failure; the delay that the operation
// asks for, or that it asks for a backoff; lost if the object was changed meanwhile; as, the
// revision of the written status; at, the end of the operation, by default the beginning of the
// round; and the part of the jitter that the backoff gets.
func (s *stage) settle(rest string) error {
	key, rest, _ := strings.Cut(rest, " ")
	o, err := s.parseSettlement(rest, s.round.now)
	s.round.settle[key] = o
	return err
}

// settleRest runs the statement
//
//	rest done
//
// It gives all items without an outcome of their own the same outcome, written as for settle.
func (s *stage) settleRest(rest string) error {
	o, err := s.parseSettlement(rest, s.round.now)
	s.round.rest = &o
	return err
}

var kindsByName = map[string]Kind{
	"done": Done, "failed": Failed, "terminal": FailedForGood, "blocked": BlockedOn,
	"requeue": DoneAgain, "deleting": Deleting, "void": Void, "superseded": Superseded,
}

func (s *stage) parseSettlement(rest string, now time.Duration) (settlement, error) {
	o := settlement{at: now}
	if before, quoted, ok := strings.Cut(rest, `"`); ok {
		text, after, closed := strings.Cut(quoted, `"`)
		if !closed {
			return o, fmt.Errorf("the text has no end")
		}
		o.out.Text, rest = &text, before+after
	}
	name, words, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kind, ok := kindsByName[name]
	if !ok {
		return o, fmt.Errorf("no such outcome: %q", name)
	}
	o.out.Kind = kind
	return o, set(words, map[string]any{
		"after": &o.out.Delay, "lost": &o.out.Lost, "backoff": &o.out.Backoff, "jitter": &o.out.Jitter,
		"as": &o.as, "at": &o.at,
	})
}

// release runs the statement
//
//	release a 300ms
//
// It releases a blocked key at a time.
func (s *stage) release(rest string) error {
	key, at, _ := strings.Cut(rest, " ")
	now, err := time.ParseDuration(at)
	if err == nil && !s.core.Release(key, now) {
		fmt.Fprintf(&s.answer, "%s: was not blocked\n", key)
	}
	return err
}

// finish runs the statement
//
//	finish a 300ms done
//
// It settles a launched item at a time. The outcome is written as for settle.
func (s *stage) finish(rest string) error {
	key, rest, _ := strings.Cut(rest, " ")
	at, rest, _ := strings.Cut(rest, " ")
	now, err := time.ParseDuration(at)
	if err != nil {
		return err
	}
	o, err := s.parseSettlement(rest, now)
	if err != nil {
		return err
	}
	it := s.inFlight[key]
	if it == nil {
		return fmt.Errorf("%q is not in flight", key)
	}
	delete(s.inFlight, key)
	s.settleItem(it, o)
	return nil
}

// pause runs the statement
//
//	pause a, b 300ms
//
// From that time on exactly these keys are paused.
func (s *stage) pause(rest string) error {
	keys := map[string]bool{}
	at := rest[strings.LastIndex(rest, " ")+1:]
	name(strings.TrimSuffix(rest, at), keys)
	now, err := time.ParseDuration(at)
	s.core.SetPaused(func(r row) bool { return keys[r.key] })
	s.core.Walk(now)
	return err
}

// resume runs the statement
//
//	resume 400ms
//
// From that time on no key is paused.
func (s *stage) resume(rest string) error {
	now, err := time.ParseDuration(rest)
	s.core.SetPaused(nil)
	s.core.Walk(now)
	return err
}

// closeBreaker runs the statement
//
//	close 300ms
//
// It ends the backoffs, as when the breaker closes at that time.
func (s *stage) closeBreaker(rest string) error {
	now, err := time.ParseDuration(rest)
	s.core.EndBackoffs(now)
	return err
}

// addOrphan runs the statement
//
//	orphan a@7
//
// It adds an orphan: an object that the target has and the table does not, as of a revision.
func (s *stage) addOrphan(rest string) error {
	key, revision, err := parseVersion(rest)
	if err == nil && !s.core.AddOrphan(row{key: key}, revision) {
		fmt.Fprintf(&s.answer, "%s: is known already\n", key)
	}
	s.see(key)
	return err
}
