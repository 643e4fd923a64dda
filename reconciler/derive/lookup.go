// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/changes"
	"github.com/statekeel/statekeel/internal/edges"
	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
)

// Joined is a further input of a derivation: a table in which the function looks rows up, by one index. [Lookup]
// makes it, and [EachOf] and [BestOf] take it. Its methods are called by the function, with the [Reader] of that call.
// What they look up is an edge from the input row: the function is called again for the row when a row of the table
// changes that has the key, or had it before. So there is nothing to register, and no edge can be missed, except by a
// function that reads a table past its reader.
type Joined[Row, Key any] struct {
	table changes.Table[Row]
	index statedb.Index[Row, Key]
	rows  *rows.Rows[Row]
	// of is the derivation, which has the further input under this number; nil until it has one.
	of     *joins
	number int
}

// Lookup returns a further input: a table, and the index of it by which rows are looked up, which may be the primary
// one. An index with several keys a row serves selectors: with each label as the key "app=web", look up the rarest
// label of a selector, and leave out the rows that miss another one. Indexes of statedb for the longest prefix are no
// further inputs. It belongs to one derivation. The errors of [EachOf] name what is wrong with the arguments.
func Lookup[Row, Key any](table statedb.Table[Row], index statedb.Index[Row, Key]) *Joined[Row, Key] {
	return &Joined[Row, Key]{table: changes.Table[Row]{Table: table}, index: index}
}

// List yields the rows that have a key in the index, as [statedb.Table] does. The look-up is recorded when the
// sequence is used, which is an error of the row after the call of the function. A row without a key in the index is
// never found.
func (j *Joined[Row, Key]) List(r *Reader, key Key) iter.Seq2[Row, statedb.Revision] {
	return func(yield func(Row, statedb.Revision) bool) {
		at := j.index.FromKey(key)
		if txn := r.look(j.of, edges.ByKey(j.number, string(at))); txn != nil {
			j.table.List(txn, j.index.QueryFromKey(at))(yield)
		}
	}
}

// Get returns the first row that has a key in the index. That is the row if the index is unique.
func (j *Joined[Row, Key]) Get(r *Reader, key Key) (row Row, revision statedb.Revision, found bool) {
	for row, revision := range j.List(r, key) {
		return row, revision, true
	}
	return row, 0, false
}

// All yields all rows of the table. It is an edge to every row: the function is called again for the input row
// whenever any row of the table changes. Figures and [Derived.Explain] count such input rows.
func (j *Joined[Row, Key]) All(r *Reader) iter.Seq2[Row, statedb.Revision] {
	return func(yield func(Row, statedb.Revision) bool) {
		if txn := r.look(j.of, edges.Everything(j.number)); txn != nil {
			j.table.All(txn)(yield)
		}
	}
}

// Reader is what the function of a derivation looks rows up with: see [Joined]. All look-ups of all calls for one
// snapshot see that snapshot. It is of one call: a look-up after the call finds nothing, and is an error of the input
// row of the reader, and of the row whose function is called meanwhile. The goroutines of a call may share it.
type Reader struct {
	of  *joins
	key string // of the input row

	mu   sync.Mutex
	txn  statedb.ReadTxn // nil after the call
	what []edges.Lookup
	err  error
}

// look records a look-up, and returns the snapshot to look it up in; nil if that is an error.
func (r *Reader) look(of *joins, what edges.Lookup) statedb.ReadTxn {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.txn == nil:
		r.of.late(r.key)
	case r.of != of:
		r.err = errors.New("the function looked rows up in a further input that the derivation was not given")
	default:
		r.what = append(r.what, what)
		return r.txn
	}
	return nil
}

// end ends the call. It returns an error if a look-up was wrong.
func (r *Reader) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.txn = nil
	return r.err
}

// joins is what a derivation has of its further inputs, whatever the types of its rows.
type joins struct {
	further []further
	edges   edges.Set // guarded by Derived.mu
	// again are the input rows to derive in this round, or the next one if it was ended.
	again map[string]*edges.Cause
	// last is the snapshot that the iterators have read; nil before the first. The edges are of calls up to then.
	last statedb.ReadTxn
	// late is called for a look-up after the call for the input row with this key.
	late func(key string)
	// round is the number of the present round. lost has what came apart; lose adds to it.
	round uint64
	lost  edges.Lost
	lose  func(s edges.Subject, target string)
}

// following is a [changes.Table] of rows of any type.
type following interface {
	Close()
	Await(ctx context.Context, txn statedb.ReadTxn) bool
	More(txn statedb.ReadTxn) <-chan struct{}
}

// further is a [Joined] of rows and keys of any type.
type further interface {
	// wrong returns what is wrong with the further input itself; nil if nothing is.
	wrong() error
	meta() statedb.TableMeta
	open(wtxn statedb.WriteTxn, of *joins, number int) error
	follow() following
	// gather has input rows derived that have looked up what has changed. changed gets the key of each such row, with
	// an error if an index panics.
	gather(txn statedb.ReadTxn, log *slog.Logger, changed func(key string, err error))
	// size returns the number of rows that a look-up finds, which is at most maxScanned by a key, and a name for it.
	size(txn statedb.ReadTxn, what edges.Lookup) (n int, name string)
	// named returns the key of the row with the name TABLE/KEY, and the look-ups that find it.
	named(txn statedb.ReadTxn, name string) (key string, what []edges.Lookup, revision statedb.Revision, found bool)
	// name returns the key of a row as TABLE/KEY.
	name(key string) string
	// finder returns the rows of the table. lookupsOf returns the look-ups that find the row that a snapshot has under a
	// key; none if it has none.
	finder() finder
	lookupsOf(txn statedb.ReadTxn, key string) (what []edges.Lookup, err error)
}

func (j *Joined[Row, Key]) meta() statedb.TableMeta { return j.table.Table }
func (j *Joined[Row, Key]) follow() following       { return &j.table }

func (j *Joined[Row, Key]) wrong() error {
	switch {
	case j == nil:
		return errors.New("it is nil")
	case j.table.Table == nil:
		return errors.New("the table is nil")
	case j.of != nil:
		return fmt.Errorf("the look-up in table %q by the index %q belongs to another derivation already: make one for each",
			j.table.Name(), j.index.Name)
	case !slices.Contains(j.table.Indexes(), j.index.Name) || j.index.FromObject == nil || j.index.FromKey == nil:
		return fmt.Errorf("table %q has no index %q with FromObject and FromKey", j.table.Name(), j.index.Name)
	}
	return nil
}

func (j *Joined[Row, Key]) open(wtxn statedb.WriteTxn, of *joins, number int) error {
	j.of, j.number, j.rows = of, number, rows.NewBeside(nil, j.table.Table)
	return j.table.Open(wtxn)
}

func (j *Joined[Row, Key]) gather(txn statedb.ReadTxn, log *slog.Logger, changed func(key string, err error)) {
	// failed are the changes for which all rows are derived again that have looked up anything in the table: an index has
	// failed. Deferred, so that no change is lost if one ends the goroutine.
	var failed []*edges.Cause
	defer func() {
		for _, by := range failed {
			for row := range j.of.edges.RowsOf(j.number) {
				j.of.again[row] = by
				j.of.lose(edges.FurtherRow(j.number, by.Key), row)
			}
		}
	}()
	for change := range j.table.Next(txn) {
		if j.of.last == nil {
			continue // nothing was looked up yet
		}
		by := &edges.Cause{Input: j.number}
		failed = append(failed, by)
		complete, err := j.changed(change, by, log)
		if complete {
			failed = failed[:len(failed)-1]
		} else {
			log = nil // once a round is enough
		}
		changed(by.Key, err)
	}
}

// changed has input rows derived, because of by, that have looked up a row that has changed: by a key of its old version,
// which the snapshot of the last round has, or of its new one. It is not complete if an index panics. The error is that
// of a row that the table has.
func (j *Joined[Row, Key]) changed(change statedb.Change[Row], by *edges.Cause, log *slog.Logger) (complete bool, err error) {
	key, what, err := j.lookups(change.Object, log)
	by.Key, complete = key, err == nil
	if change.Deleted {
		what, err = nil, nil
	}
	if old, _, had := j.rows.ByKey(j.of.last, index.Key(key)); had && complete {
		_, more, failed := j.lookups(old, log)
		j.loseReaders(key, more, what)
		what, complete = append(what, more...), failed == nil
	}
	for _, one := range what {
		for row := range j.of.edges.Rows(one) {
			j.of.again[row] = by
		}
	}
	return complete, err
}

// loseReaders notes that input rows no longer depend on a row with a key: those that found it by the look-ups of before,
// and not of now, or did once and made another look-up since.
func (j *Joined[Row, Key]) loseReaders(key string, before, now []edges.Lookup) {
	subject := edges.FurtherRow(j.number, key)
	for _, one := range before {
		if slices.Contains(now, one) {
			continue
		}
		for row := range j.of.edges.Rows(one) {
			j.of.lose(subject, row)
		}
		for row := range j.of.lost.Of(edges.LookedUp(one)) {
			j.of.lose(subject, row)
		}
	}
}

// lookups returns the key of a row, and the look-ups that find it. The error is a panic of an index.
func (j *Joined[Row, Key]) lookups(row Row, log *slog.Logger) (key string, what []edges.Lookup, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the index %q panicked: %s", j.index.Name, guard.Panicked(r, log, "index panicked", "table", j.table.Name()))
		}
	}()
	key = string(j.rows.Key(row))
	what = []edges.Lookup{edges.Everything(j.number)}
	j.index.FromObject(row).Foreach(func(at index.Key) { what = append(what, edges.ByKey(j.number, string(at))) })
	return key, what, nil
}

func (j *Joined[Row, Key]) size(txn statedb.ReadTxn, what edges.Lookup) (n int, name string) {
	key, is := what.Key()
	if !is {
		return j.table.NumObjects(txn), fmt.Sprintf("all of table %q", j.table.Name())
	}
	for range j.table.List(txn, j.index.QueryFromKey(index.Key(key))) {
		if n++; n == maxScanned {
			break
		}
	}
	return n, fmt.Sprintf("%s in the index %q of table %q", text.Key([]byte(key)), j.index.Name, j.table.Name())
}

func (j *Joined[Row, Key]) named(
	txn statedb.ReadTxn, name string,
) (key string, what []edges.Lookup, revision statedb.Revision, found bool) {
	if name, is := strings.CutPrefix(name, j.table.Name()+"/"); is {
		var row Row
		if _, row, revision, found = j.rows.Named(txn, name, nil); found {
			key, what, _ = j.lookups(row, nil) // health has the error of an index
		}
	}
	return key, what, revision, found
}

func (j *Joined[Row, Key]) name(key string) string {
	return j.table.Name() + "/" + j.rows.KeyName(index.Key(key))
}

func (j *Joined[Row, Key]) finder() finder { return j.rows }

func (j *Joined[Row, Key]) lookupsOf(txn statedb.ReadTxn, key string) (what []edges.Lookup, err error) {
	if row, _, found := j.rows.ByKey(txn, index.Key(key)); found {
		_, what, err = j.lookups(row, nil)
	}
	return what, err
}
