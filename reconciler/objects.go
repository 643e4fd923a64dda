// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

const (
	// defaultListed and maxObjects bound a page of objects, maxScanned the rows that are
	// looked at for one.
	defaultListed = 50
	maxObjects    = 1000
	maxScanned    = 20_000
	// maxPageText bounds the bytes of the keys and reasons of a page, beyond its last line.
	maxPageText = 3 << 18

	// listDeleted is the status by which deletions are listed.
	listDeleted = "deleted"
)

// Objects lists objects, a page at a time, the longest unwritten first; deletions that are
// not carried out in the order in which they came, up to the first 1000. The cost of a page
// is that of the rows that are looked at for it, 20,000 at the most. A page ends early at 768 KiB
// of keys and reasons. Safe from any goroutine.
func (l *Loop[Obj]) Objects(ctx context.Context, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultListed
	}
	limit = min(limit, maxObjects)
	kind := strings.ToLower(q.Status)
	after, err := parsePlace(q.After)
	if err != nil || after.key != "" && kind != listDeleted {
		return inspect.ObjectPage{}, fmt.Errorf("after is %q, must be what the page before gave as the next", q.After)
	}
	if kind == listDeleted {
		return l.listDeletions(ctx, after, limit)
	}
	if kind != "" && !isKind(kind) {
		return inspect.ObjectPage{}, fmt.Errorf("status is %q, must be one of Pending, Refreshing, Done, Error, Blocked, Unset or Deleted, or empty", q.Status)
	}
	return l.listRows(ctx, kind, after.revision, limit), nil
}

// place is where a page ends: at a revision, and, of deletions, of which many may share one,
// at a key.
type place struct {
	revision uint64
	key      string
}

func (p place) String() string {
	if p.key == "" {
		return strconv.FormatUint(p.revision, 10)
	}
	return fmt.Sprintf("%d-%x", p.revision, p.key)
}

func parsePlace(text string) (p place, err error) {
	if text == "" {
		return p, nil
	}
	revision, key, _ := strings.Cut(text, "-")
	if p.revision, err = strconv.ParseUint(revision, 10, 64); err != nil {
		return p, err
	}
	raw, err := hex.DecodeString(key)
	p.key = string(raw)
	return p, err
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.revision, q.revision), strings.Compare(p.key, q.key))
}

func isKind(text string) bool {
	for _, k := range []StatusKind{
		status.KindUnset, status.KindPending, status.KindRefreshing, status.KindDone, status.KindError, status.KindBlocked,
	} {
		if kindText(k) == text {
			return true
		}
	}
	return false
}

// kindText returns a kind in lower case; Unset, which is no text in a status, by its name.
func kindText(k StatusKind) string {
	if k == status.KindUnset {
		return "unset"
	}
	return strings.ToLower(k.String())
}

func (l *Loop[Obj]) listRows(ctx context.Context, kind string, after uint64, limit int) inspect.ObjectPage {
	page := inspect.ObjectPage{Objects: []inspect.ObjectLine{}}
	var rows []Obj
	scanned, size := 0, 0
	for row, revision := range l.rows.Table.LowerBound(l.rows.DB.ReadTxn(), statedb.ByRevision[Obj](after+1)) {
		if len(rows) == limit || scanned == maxScanned || size >= maxPageText {
			page.Next = strconv.FormatUint(after, 10)
			break
		}
		scanned++
		after = revision
		s := l.rows.GetStatus(row)
		if kind != "" && kindText(s.Kind) != kind {
			continue
		}
		line := inspect.ObjectLine{Key: l.rows.Name(row), Status: s.Kind.String(), Since: s.UpdatedAt, Revision: revision}
		if s.Kind == status.KindBlocked {
			line.BlockedOn = errorOf(s)
		} else {
			line.Error = errorOf(s)
		}
		size += lineText(&line)
		page.Objects, rows = append(page.Objects, line), append(rows, row)
	}
	l.standings(ctx, page.Objects, rows)
	return page
}

// lineText returns the bytes of the texts of a line.
func lineText(line *inspect.ObjectLine) int {
	return len(line.Key) + len(line.Error) + len(line.BlockedOn)
}

// standings adds to the lines of some rows what the loop knows of them.
func (l *Loop[Obj]) standings(ctx context.Context, lines []inspect.ObjectLine, rows []Obj) {
	known, err := askBriefly(ctx, l, func(*books[Obj]) []*core.Standing[Obj] {
		all := make([]*core.Standing[Obj], len(rows))
		for i, row := range rows {
			if s, ok := l.core.StandingOf(string(l.rows.Key(row)), 0); ok {
				all[i] = &s
			}
		}
		return all
	})
	for i, row := range rows {
		if err == nil && known[i] != nil {
			l.addStanding(&lines[i], known[i])
		} else {
			lines[i].State = l.rowState(l.rows.Key(row), l.rows.GetStatus(row).Kind, err)
		}
	}
}

// addStanding adds to a line what the core knows.
func (l *Loop[Obj]) addStanding(line *inspect.ObjectLine, s *core.Standing[Obj]) {
	line.Attempts, line.State = s.Failures, states[s.State]
	if s.Timed {
		line.Next = l.timeOf(s.Due)
	}
}

// states are the states of the core, as they are told.
var states = [core.NumStates]inspect.State{
	core.Planned: inspect.StateReady, core.Ready: inspect.StateReady, core.InFlight: inspect.StateInFlight, core.Queued: inspect.StateQueued,
	core.Paused: inspect.StatePaused, core.Tripped: inspect.StateTripped, core.Unseen: inspect.StateUnseen, core.Held: inspect.StateHeld,
	core.Retry: inspect.StateRetry, core.Requeue: inspect.StateRequeue, core.Blocked: inspect.StateBlocked, core.Terminal: inspect.StateTerminal,
}

// listDeletions lists deletions that the loop has not carried out. They are ordered by the
// change that they owe, and then by key.
func (l *Loop[Obj]) listDeletions(ctx context.Context, after place, limit int) (inspect.ObjectPage, error) {
	type deletion struct {
		place
		debt     core.Debt[Obj]
		standing core.Standing[Obj]
	}
	found, err := askBriefly(ctx, l, func(*books[Obj]) []deletion {
		var list []deletion
		seen := 0
		l.core.Debts(func(d core.Debt[Obj]) bool {
			// What shares a revision comes in no order: all of it is sorted.
			if len(list) > limit && d.Since > list[len(list)-1].revision || seen == maxScanned {
				return false
			}
			seen++
			at := place{d.Since, string(l.rows.Key(d.Obj))}
			if d.Deleted && at.compare(after) > 0 {
				s, _ := l.core.StandingOf(at.key, 0)
				list = append(list, deletion{at, d, s})
			}
			return true
		})
		slices.SortFunc(list, func(a, b deletion) int { return a.compare(b.place) })
		return list
	})
	if err != nil {
		return inspect.ObjectPage{}, fmt.Errorf("only the reconciler knows the deletions: %w", err)
	}
	page := inspect.ObjectPage{Objects: []inspect.ObjectLine{}}
	size := 0
	for i := range found {
		d := &found[i]
		if i == limit || size >= maxPageText {
			page.Next = found[i-1].String()
			break
		}
		line := inspect.ObjectLine{
			Key: l.rows.Name(d.debt.Obj), Status: "Deleted", Revision: d.debt.Since, Error: d.debt.Failure,
			Since: l.timeOf(d.standing.Wanted),
		}
		l.addStanding(&line, &d.standing)
		size += lineText(&line)
		page.Objects = append(page.Objects, line)
	}
	return page, nil
}

// Keys returns the texts of up to limit keys that begin with a prefix, in the order of the
// table. It looks at the first 20,000 rows. Safe from any goroutine.
func (l *Loop[Obj]) Keys(prefix string, limit int) (keys []string) {
	scanned := 0
	for row := range l.rows.Table.All(l.rows.DB.ReadTxn()) {
		if scanned == maxScanned || len(keys) == limit {
			break
		}
		scanned++
		if name := l.rows.Name(row); strings.HasPrefix(name, prefix) {
			keys = append(keys, name)
		}
	}
	return keys
}
