// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

const (
	// defaultListed and maxObjects are the default and the maximum of the objects of a page,
	// maxScanned is the maximum of the rows, or of the unreconciled keys, that are read for one.
	defaultListed = 50
	maxObjects    = 1000
	maxScanned    = 20_000
	// maxPageText is the number of bytes of keys and reasons after which a page ends.
	maxPageText = 3 << 18

	// listDeleted is the status that lists deletions.
	listDeleted = "deleted"
)

// objects is [Loop.Objects].
func (v *view[Obj]) objects(ctx context.Context, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultListed
	}
	limit = min(limit, maxObjects)
	name := strings.ToLower(q.Status)
	after, ok := parsePageEnd(q.After)
	if !ok || after.key != "" && name != listDeleted {
		return inspect.ObjectPage{}, fmt.Errorf("after is %q, must be the next of the page before", q.After)
	}
	if name == listDeleted {
		return v.listDeletions(ctx, after, limit)
	}
	kind, is := kindOf[name]
	if name != "" && !is {
		return inspect.ObjectPage{}, fmt.Errorf("status is %q, must be one of Pending, Refreshing, Done, Error, Blocked, Unset or Deleted, or empty", q.Status)
	}
	return v.listRows(ctx, func(k StatusKind) bool { return name == "" || k == kind }, after.revision, limit), nil
}

// pageEnd is where a page ends: a revision, and for deletions, several of which may have the same
// revision, a key.
type pageEnd struct {
	revision uint64
	key      string
}

func (p pageEnd) String() string {
	if p.key == "" {
		return strconv.FormatUint(p.revision, 10)
	}
	return fmt.Sprintf("%d-%x", p.revision, p.key)
}

// parsePageEnd is the inverse of String. No text is the place before all others.
func parsePageEnd(text string) (p pageEnd, ok bool) {
	_, _ = fmt.Sscanf(text, "%d-%x", &p.revision, &p.key)
	return p, text == "" || p.String() == text
}

func (p pageEnd) compare(q pageEnd) int {
	return cmp.Or(cmp.Compare(p.revision, q.revision), strings.Compare(p.key, q.key))
}

// kindOf has the kinds of statuses by their names in lower case.
var kindOf = map[string]StatusKind{
	"unset": status.KindUnset, "pending": status.KindPending, "refreshing": status.KindRefreshing,
	"done": status.KindDone, "error": status.KindError, "blocked": status.KindBlocked,
}

// listRows lists rows whose kinds of statuses are wanted, after a revision.
func (v *view[Obj]) listRows(ctx context.Context, wanted func(StatusKind) bool, after uint64, limit int) inspect.ObjectPage {
	page := inspect.ObjectPage{Objects: []inspect.ObjectLine{}}
	var rows []Obj
	var kinds []StatusKind
	scanned, size := 0, 0
	txn := v.rows.DB.ReadTxn()
	for row, revision := range v.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](after+1)) {
		if len(rows) == limit || scanned == maxScanned || size >= maxPageText {
			page.Next = strconv.FormatUint(after, 10)
			break
		}
		scanned++
		after = revision
		s := v.ledger.Status(txn, row, revision)
		if !wanted(s.Kind) {
			continue
		}
		line := inspect.ObjectLine{Key: v.rows.Name(row), Status: s.Kind.String(), Since: s.UpdatedAt, Revision: revision}
		if s.Kind == status.KindBlocked {
			line.BlockedOn = s.GetError()
		} else {
			line.Error = s.GetError()
		}
		size += lineText(&line)
		page.Objects, rows, kinds = append(page.Objects, line), append(rows, row), append(kinds, s.Kind)
	}
	v.addInfos(ctx, page.Objects, rows, kinds)
	return page
}

// lineText returns the number of bytes of the texts of a line.
func lineText(line *inspect.ObjectLine) int {
	return len(line.Key) + len(line.Error) + len(line.BlockedOn)
}

// addInfos adds what the loop knows about some rows, with the kinds of their statuses, to their lines.
func (v *view[Obj]) addInfos(ctx context.Context, lines []inspect.ObjectLine, rows []Obj, kinds []StatusKind) {
	all, err := askBriefly(ctx, v, func(b *answers[Obj]) []known[Obj] {
		all, txn := make([]known[Obj], len(rows)), v.rows.DB.ReadTxn()
		for i, row := range rows {
			all[i] = b.known(v.rows.Key(row), row, lines[i].Revision, 0)
			_, revision, found := v.rows.Get(txn, row)
			all[i].replaced = !found || revision != lines[i].Revision
		}
		return all
	})
	if err != nil {
		all = make([]known[Obj], len(rows))
	}
	g := v.gates()
	for i, row := range rows {
		line, key, k := &lines[i], v.rows.Key(row), &all[i]
		if err != nil {
			*k = v.unasked(key)
		}
		line.State = g.shown(stateOf(true, kinds[i], k, err), key)
		if k.info != nil {
			line.Attempts = k.info.Failures
		}
		line.Next = v.nextAttempt(g, line.State, k.info)
	}
}

// listDeletions lists deletions that are not carried out, in the order of the revision since which
// they are unreconciled, then of their keys.
func (v *view[Obj]) listDeletions(ctx context.Context, after pageEnd, limit int) (inspect.ObjectPage, error) {
	found, err := askBriefly(ctx, v, func(b *answers[Obj]) deletions[Obj] { return b.deletions(after, limit) })
	if err != nil {
		return inspect.ObjectPage{}, fmt.Errorf("only the reconciler knows the deletions: %w", err)
	}
	page, g := inspect.ObjectPage{Objects: []inspect.ObjectLine{}}, v.gates()
	if found.more {
		page.Next = found.last.String()
	}
	size := 0
	for i, d := range found.list {
		if i == limit || size >= maxPageText {
			page.Next = found.list[i-1].String()
			break
		}
		line := inspect.ObjectLine{
			Key: v.rows.Name(d.info.Obj), Status: "Deleted", Revision: d.revision, Error: d.info.Failure, BlockedOn: d.info.Reason,
			Since: v.life.timeOf(d.info.Wanted), State: g.shown(inspect.State(d.info.State.String()), v.rows.Key(d.info.Obj)), Attempts: d.info.Failures,
		}
		line.Next = v.nextAttempt(g, line.State, &d.info)
		size += lineText(&line)
		page.Objects = append(page.Objects, line)
	}
	return page, nil
}
