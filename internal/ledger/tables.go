// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/opentable"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Mark is the row of the table of the mark: how far the table of objects has been attempted. Marks
// are immutable.
type Mark struct {
	// Revision is a revision of the table of objects. Every change up to it was attempted, or its
	// object has a row in the table of outcomes.
	Revision statedb.Revision
	// Intervals are further revisions, above Revision, for which the same is true. They are ascending
	// and do not overlap.
	Intervals []observe.Range

	// ended is closed when the user of the tables that wrote the mark has ended. The row refers to it, so it is
	// found with the tables, without global state. It is nil before the mark was written.
	ended <-chan struct{}
}

// Covers reports whether a change with this revision was attempted, or its object has a row in the
// table of outcomes.
func (m *Mark) Covers(revision statedb.Revision) bool {
	return revision <= m.Revision || slices.ContainsFunc(m.Intervals, func(i observe.Range) bool { return i.Contains(revision) })
}

// ranges yields the ranges for which Covers is true: revisions above the first and up to the second.
func (m *Mark) ranges(yield func(after, upTo statedb.Revision) bool) {
	if !yield(0, m.Revision) {
		return
	}
	for _, i := range m.Intervals {
		if !yield(i.After, i.UpTo) {
			return
		}
	}
}

// TableHeader implements statedb.TableWritable.
func (*Mark) TableHeader() []string { return []string{"Revision", "Intervals"} }

// TableRow implements statedb.TableWritable. An interval is shown by its first and its last revision.
func (m *Mark) TableRow() []string {
	var intervals strings.Builder
	for i, one := range m.Intervals {
		if i > 0 {
			intervals.WriteString(", ")
		}
		fmt.Fprintf(&intervals, "%d-%d", one.After+1, one.UpTo)
	}
	return []string{strconv.FormatUint(m.Revision, 10), text.Cell(intervals.String())}
}

// Tables are the two tables of a ledger beside the table of objects. They are in the database of the
// objects, so one ReadTxn shows an object together with its outcome.
type Tables struct {
	// Outcomes has a row for each object that is not Done, by its primary key.
	Outcomes statedb.RWTable[*inspect.Outcome]
	// Mark has one row. Write it with [Tables.SetMark].
	Mark statedb.RWTable[*Mark]

	ended <-chan struct{}
}

const (
	outcomesSuffix = "-outcomes"
	markSuffix     = "-mark"
)

// OpenTables returns the tables of the ledger with this name, <name>-outcomes and <name>-mark. The
// outcomes are empty, and the mark is at 0. Tables that the database does not have are registered.
// Tables that it has are taken over if their last user has ended: the channel ended is closed when this one
// does, after its last write.
//
// keyOf converts the text of a key to the primary key of an object, for the commands of statedb. The table
// refers to keyOf until the next OpenTables, also after the end.
//
// It is an error if a name does not follow statedb's rule, if another user of the tables has not
// ended, and if the database has a table of the name with rows of another type. It is safe for
// concurrent use.
func OpenTables(db *statedb.DB, name string, ended <-chan struct{}, keyOf func(text string) (index.Key, error)) (*Tables, error) {
	// The name of the mark's table is shorter.
	if longest := name + outcomesSuffix; !opentable.NameRule.MatchString(longest) {
		return nil, fmt.Errorf("the name %q cannot be used: the name of its table of outcomes, %q, does not match statedb's rule %s",
			name, longest, opentable.NameRule)
	}
	t, err := register(db, name)
	if err != nil {
		return nil, err
	}
	t.ended = ended
	return t, t.take(db, name, keyOf)
}

// register returns the tables, and registers those that are missing.
func register(db *statedb.DB, name string) (*Tables, error) {
	t := &Tables{}
	const maker = "a reconciler"
	err := opentable.Open(db,
		opentable.Of(name+outcomesSuffix, maker, newOutcomeIndex, &t.Outcomes),
		opentable.Of(name+markSuffix, maker, newMarkIndex, &t.Mark))
	return t, err
}

// take claims the tables, and empties them.
func (t *Tables) take(db *statedb.DB, name string, keyOf func(text string) (index.Key, error)) error {
	wtxn := db.WriteTxn(t.Outcomes, t.Mark)
	defer wtxn.Abort()
	if ended := t.Current(wtxn).ended; ended != nil && !watch.IsClosed(ended) {
		return fmt.Errorf("a reconciler named %q has the tables %q and %q", name, t.Outcomes.Name(), t.Mark.Name())
	}
	if err := t.Outcomes.DeleteAll(wtxn); err != nil {
		return err
	}
	if err := t.insertMark(wtxn, 0, nil); err != nil {
		return err
	}
	any(t.Outcomes.PrimaryIndexer()).(outcomeIndex).keyOf.Store(&keyOf)
	wtxn.Commit()
	return nil
}

// Current returns the mark. It returns a zero Mark, which covers nothing, if there is none.
func (t *Tables) Current(txn statedb.ReadTxn) *Mark {
	if m, _, found := t.Mark.Get(txn, onlyMark); found {
		return m
	}
	return &Mark{}
}

// SetMark writes the mark. It returns an error if the tables were taken over: a mark of their former user
// would be wrong for the present one. Then the caller must abort its transaction.
func (t *Tables) SetMark(wtxn statedb.WriteTxn, revision statedb.Revision, intervals []observe.Range) error {
	if t.Current(wtxn).ended != t.ended {
		return errors.New("another reconciler has taken over the tables of outcomes and of the mark")
	}
	return t.insertMark(wtxn, revision, intervals)
}

func (t *Tables) insertMark(wtxn statedb.WriteTxn, revision statedb.Revision, intervals []observe.Range) error {
	_, _, err := t.Mark.Insert(wtxn, &Mark{Revision: revision, Intervals: intervals, ended: t.ended})
	return err
}

// outcomeIndex is the primary index of a table of outcomes. A table keeps its index when it is taken
// over, so the function that reads keys is behind a pointer.
type outcomeIndex struct {
	statedb.Index[*inspect.Outcome, index.Key]
	keyOf *atomic.Pointer[func(text string) (index.Key, error)]
}

func newOutcomeIndex() outcomeIndex {
	i := outcomeIndex{keyOf: new(atomic.Pointer[func(text string) (index.Key, error)])}
	read := index.FromString
	i.keyOf.Store(&read)
	i.Index = statedb.Index[*inspect.Outcome, index.Key]{
		Name:       "id",
		FromObject: func(o *inspect.Outcome) index.KeySet { return index.NewKeySet(o.ID) },
		FromKey:    func(key index.Key) index.Key { return key },
		FromString: func(text string) (index.Key, error) { return (*i.keyOf.Load())(text) },
		Unique:     true,
	}
	return i
}

// markIndex is the primary index of the table of the mark, with one key for all marks.
var (
	markKey   = index.String("mark")
	markKeys  = index.NewKeySet(markKey)
	markIndex = statedb.Index[*Mark, index.Key]{
		Name:       "id",
		FromObject: func(*Mark) index.KeySet { return markKeys },
		FromKey:    func(key index.Key) index.Key { return key },
		FromString: index.FromString,
		Unique:     true,
	}
	onlyMark = markIndex.QueryFromKey(markKey)
)

func newMarkIndex() statedb.Index[*Mark, index.Key] { return markIndex }
