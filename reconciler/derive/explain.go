// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/claims"
	"github.com/statekeel/statekeel/internal/edges"
	"github.com/statekeel/statekeel/internal/problems"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxExplained bounds the output rows of one input row that an explanation names, maxRanked the input rows
// of one output row: the winner and ten others. maxScanned bounds the rows that a list of keys or objects
// reads, and maxPage those that it returns.
const (
	maxExplained = 10
	maxRanked    = 11
	maxScanned   = 20_000
	maxPage      = 1000
)

// statusOf has the kinds of statuses that loops would show.
var statusOf = map[inspect.State]string{
	inspect.StateTerminal: "Error", inspect.StateUnseen: "Pending", inspect.StateDone: "Done",
}

// ID returns the name of the derivation. Its Table is the input: its rows are the objects.
func (d *Derived[In, Out]) ID() inspect.ID {
	return inspect.ID{Name: d.cfg.Name, Table: d.in.Table.Name()}
}

// Explain says what became of a row of the input, or where a row of the output comes from. key is the
// text of the key of either; if both tables have it, it is explained as both. For each output row that
// an input row wants, a note names the winner; for an output row, notes name the winner and the next
// ten in their order. With further inputs, notes also say what the function has looked up for an input row and which
// change it was called for last; and the key TABLE/KEY is that of a row of a further input, for which notes name the
// first ten input rows that depend on it.
func (d *Derived[In, Out]) Explain(_ context.Context, key string) inspect.Explanation {
	e := inspect.Explanation{Reconciler: d.ID().String(), Key: key, At: time.Now()}
	txn := d.cfg.DB.ReadTxn()
	s := d.facts(txn, key)
	d.explainInput(&e, s)
	for i := range s.contests {
		e.Notes = append(e.Notes, d.contestNotes(&s.contests[i])...)
	}
	d.explainReads(&e, s, txn)
	d.explainJoined(&e, txn)
	if hangs := d.hangs(); hangs != "" {
		e.Notes = append(e.Notes, hangs) // all other rows wait for it
	}
	return e
}

// facts is what a derivation knows about a key.
type facts[In, Out any] struct {
	// name is the key as the input writes it, found: the input has the row, at revision. It wants output
	// rows, and wins so many of them. unseen is why this version of the row is not derived yet.
	found        bool
	name, unseen string
	revision     statedb.Revision
	wants, wins  int
	// problem is the error of the row; called: that of its function, not of an output row.
	problem *problems.Problem
	called  bool
	// contests are the places that the input wants, and that with the key.
	contests []contest[In, Out]
	// looked is what the function has looked up for the row, at most maxExplained and so many more, in the call for by.
	looked []edges.Lookup
	more   int
	by     *edges.Cause
	// behind is the number of changes of the inputs that are not derived yet.
	behind int
}

// contest is a place as an explanation shows it.
type contest[In, Out any] struct {
	key string
	// asked: the explanation is that of this place.
	asked bool
	// of is the number of rows that want it, best the first of them in their order.
	of    int
	best  []claims.Input[In, Out]
	wrong *problems.Problem
	// input is the key of the explained input row; empty if there is none.
	input string
}

// facts copies what is known about a key, so that no function of the program is called with mu held.
func (d *Derived[In, Out]) facts(txn statedb.ReadTxn, key string) (s facts[In, Out]) {
	inKeys, outKeys := d.in.Keys(key), d.out.Keys(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	s.behind = d.behind(txn)
	for _, k := range inKeys {
		_, revision, found := d.in.ByKey(txn, k)
		mine, failed := d.claims.Of(string(k)), d.errorOf(string(k))
		if !found && mine == nil && failed == nil {
			continue
		}
		s.found, s.revision, s.wants, s.name = found, revision, len(mine), string(k)
		s.unseen = d.unseen(0, revision)
		s.problem, s.called = failed, d.failed.Of(string(k)) != nil
		if r := d.joins.edges.Of(string(k)); r != nil {
			s.looked, s.by = r.Lookups(maxExplained), r.By
			s.more = r.Len() - len(s.looked)
		}
		for i, x := range mine {
			if x.Wins() {
				s.wins++
			}
			if i < maxExplained {
				s.contests = append(s.contests, d.contest(x.At, s.name, false))
			}
		}
		break
	}
	if at := d.claims.Named(outKeys); at != nil {
		s.contests = append(s.contests, d.contest(at, s.name, true))
		if !s.found && s.problem == nil {
			s.problem = d.wrong.Of(at.Key)
		}
	}
	return s
}

// unseen says why a version of a row of a table of an input is not derived yet; empty if it is. It is called with mu held.
func (d *Derived[In, Out]) unseen(table int, revision statedb.Revision) string {
	switch condition := d.condition(); {
	case revision <= d.progress.read[table]:
		return ""
	case condition != inspect.ConditionRunning:
		return fmt.Sprintf("the derivation is %s, and has not read the row", condition)
	case len(d.joins.further) > 0 && d.joins.last == nil:
		return "the derivation waits until its further inputs are initialised"
	default:
		return underived
	}
}

const underived = "the derivation has not derived and written this version of the row yet"

func (d *Derived[In, Out]) contest(at *claims.Place[In, Out], input string, asked bool) contest[In, Out] {
	c := contest[In, Out]{key: at.Key, asked: asked, of: len(at.Heap), wrong: d.wrong.Of(at.Key), input: input}
	named := 2 // the winner, and the next if the winner is the explained row
	if asked {
		named = maxRanked
	}
	for _, x := range at.First(named) {
		c.best = append(c.best, *x.Of)
	}
	return c
}

func (d *Derived[In, Out]) explainInput(e *inspect.Explanation, s facts[In, Out]) {
	e.Found, e.Revision = s.found, s.revision
	input, output := d.in.Table.Name(), d.output.Name()
	switch {
	case s.problem != nil:
		e.State, e.Why = inspect.StateTerminal, "its function failed; it is called again when the row changes, or what it has looked up"
		e.Error, e.Since, e.Attempts = s.problem.Err.Error(), s.problem.Since, 1
		if !s.found && !s.called {
			e.Why = "this output row is in error"
		} else if !s.called {
			e.Why = "an output row that it wants is in error"
		} else if s.wants > 0 {
			e.Notes = append(e.Notes, fmt.Sprintf("what was derived before the failure is still in table %q", output))
		}
	case s.unseen != "":
		e.State, e.Why = inspect.StateUnseen, s.unseen
	case s.wins < s.wants:
		e.State, e.Why = inspect.StateDone, fmt.Sprintf("it wants %d row(s) of table %q, and wins %d", s.wants, output, s.wins)
	case s.found || s.wants > 0:
		e.State, e.Why = inspect.StateDone, fmt.Sprintf("%d row(s) of table %q are derived from it", s.wants, output)
	case len(s.contests) > 0:
		e.State, e.Why = inspect.StateDone, fmt.Sprintf("it is a row of table %q, derived from table %q", output, input)
	default:
		e.State, e.Why = inspect.StateAbsent, fmt.Sprintf("table %q has no such row, and no row derives one", input)
	}
	if s.found {
		e.Status = statusOf[e.State]
	}
	if more := s.wants - maxExplained; more > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("of %d rows of table %q that it derives, %d are named", s.wants, output, maxExplained))
	}
}

// explainReads adds what the function has looked up for an input row.
func (d *Derived[In, Out]) explainReads(e *inspect.Explanation, s facts[In, Out], txn statedb.ReadTxn) {
	for _, what := range s.looked {
		n, name := d.joins.further[what.Input()].size(txn, what)
		e.Notes = append(e.Notes, fmt.Sprintf("it has looked up %s: %d row(s) now", name, n))
	}
	if len(s.looked) == 0 {
		return
	} else if s.more > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("and %d further look-up(s)", s.more))
	}
	why := "a change of the row itself"
	if s.by == byOperator {
		why = "a call of Retry or Refresh"
	} else if s.by != nil {
		why = "a change of " + d.joins.further[s.by.Input].name(s.by.Key)
	}
	e.Notes = append(e.Notes, "the function was called last for "+why)
	if s.behind > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("%d change(s) of the inputs are not derived yet", s.behind))
	}
}

// explainJoined explains a row of a further input, if the key is that of one.
func (d *Derived[In, Out]) explainJoined(e *inspect.Explanation, txn statedb.ReadTxn) {
	keys, named := map[string]bool{}, false
	for _, one := range d.joins.further {
		key, lookups, revision, found := one.named(txn, e.Key)
		if !found {
			continue
		}
		name := one.name(key)
		d.mu.Lock()
		for _, what := range lookups {
			for key := range d.joins.edges.Rows(what) {
				if keys[key] = true; len(keys) >= maxScanned {
					break
				}
			}
		}
		problem, unseen := d.joined.Of(name), d.unseen(d.tableOf(one), revision)
		d.mu.Unlock()
		if named = true; e.State == inspect.StateAbsent {
			if e.Found, e.Revision, e.State, e.Why = true, revision, inspect.StateDone, unseen; unseen != "" {
				e.State = inspect.StateUnseen
			}
		}
		if problem != nil {
			e.State, e.Since, e.Error = inspect.StateTerminal, problem.Since, problem.Err.Error()
		}
		e.Status = statusOf[e.State]
	}
	if !named {
		return
	}
	why := fmt.Sprintf("%d row(s) of table %q depend on it", len(keys), d.in.Table.Name())
	if len(keys) >= maxScanned {
		why = "at least " + why
	}
	if e.Why = cmp.Or(e.Why, why); e.Why != why {
		e.Notes = append(e.Notes, "as a row of a further input: "+why)
	}
	for i, key := range slices.Sorted(maps.Keys(keys)) {
		if i == maxExplained {
			e.Notes = append(e.Notes, fmt.Sprintf("and %d further row(s)", len(keys)-i))
			break
		}
		e.Notes = append(e.Notes, fmt.Sprintf("it depends: %s of table %q", d.in.KeyName([]byte(key)), d.in.Table.Name()))
	}
}

// contestNotes returns the lines about a place.
func (d *Derived[In, Out]) contestNotes(c *contest[In, Out]) (notes []string) {
	place := fmt.Sprintf("%s of table %q", d.out.KeyName([]byte(c.key)), d.output.Name())
	switch {
	case c.of == 0:
		notes = append(notes, place+": no row wants it")
	case !c.asked && c.of == 1:
		notes = append(notes, fmt.Sprintf("%s: no other row wants it", place))
	case !c.asked && c.best[0].Key == c.input:
		notes = append(notes, fmt.Sprintf("%s: it wins over %d other(s), the next is %s", place, c.of-1, d.nameOf(c.best[1])))
	case !c.asked:
		notes = append(notes, fmt.Sprintf("%s: it loses to %s, %d row(s) want it", place, d.nameOf(c.best[0]), c.of))
	default:
		notes = append(notes, fmt.Sprintf("%s: the winner is %s, %d row(s) want it", place, d.nameOf(c.best[0]), c.of))
		for _, loser := range c.best[1:] {
			notes = append(notes, "loser: "+d.nameOf(loser))
		}
		if more := c.of - len(c.best); more > 0 {
			notes = append(notes, fmt.Sprintf("and %d further loser(s)", more))
		}
	}
	if c.wrong != nil {
		notes = append(notes, c.wrong.Err.Error())
	}
	return notes
}

// nameOf returns the key of an input row, and its other columns.
func (d *Derived[In, Out]) nameOf(r claims.Input[In, Out]) (name string) {
	name = d.in.KeyName([]byte(r.Key))
	defer func() {
		// A panic in the row's method must not stop the caller.
		_ = recover()
	}()
	if w, ok := any(r.Row).(statedb.TableWritable); ok {
		return name + " (" + strings.Join(w.TableRow(), " ") + ")"
	}
	return name
}

// Snapshot returns the state of the derivation. Its objects are the rows of the input; Failing counts the
// rows of the inputs and of the output that are in error.
func (d *Derived[In, Out]) Snapshot(context.Context) inspect.Snapshot {
	txn, f := d.cfg.DB.ReadTxn(), d.Figures()
	s := inspect.Snapshot{
		Reconciler: d.ID().String(), ID: d.ID(), At: time.Now(), Objects: f.Objects, Revision: d.in.Table.Revision(txn),
		Failing: f.Failing, Unseen: f.Unseen, Calls: f.Calls, Edges: f.Edges, EdgesToAll: f.EdgesToAll, States: f.States,
		Lanes: []metrics.StateCount{}, Settings: []inspect.SettingText{}, Output: d.out.Table.Name(),
	}
	for _, table := range d.tables {
		s.Waiting = append(s.Waiting, table.PendingInitializers(txn)...)
	}
	s.Initialized = len(s.Waiting) == 0
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Condition, s.Started = d.condition(), d.progress.started
	s.Observed, s.Attempted = d.progress.read[0], d.progress.read[0]
	classOf := func(class string, all *problems.Set, name func(index.Key) string) {
		for _, p := range all.First(1) {
			s.Errors = append(s.Errors, inspect.ErrorClass{
				Class: class, Count: uint64(all.Len()), Last: p.Since, Key: name([]byte(p.Key)), Example: p.Err.Error(),
			})
		}
	}
	if s.Busy = d.hangs(); s.Busy != "" {
		s.Condition = inspect.ConditionBusy
	}
	classOf("failed", &d.failed, d.in.KeyName)
	classOf("output", &d.wrong, d.out.KeyName)
	classOf("joined", &d.joined, func(key index.Key) string { return string(key) })
	return s
}

// Figures returns the figures of the derivation: Updates are the calls of the function, Objects the
// rows of the input, and Failing counts the rows of the inputs and of the output that are in error.
func (d *Derived[In, Out]) Figures() metrics.Figures {
	txn := d.cfg.DB.ReadTxn()
	f := metrics.Figures{Objects: d.in.Table.NumObjects(txn)}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.Unseen = d.behind(txn)
	if f.Edges, f.EdgesToAll = d.joins.edges.Len(); len(d.joins.further) > 0 {
		for i, name := range d.names {
			f.Calls = append(f.Calls, metrics.StateCount{State: name, Count: d.progress.calls[i]})
		}
	}
	f.Updates.Done, f.Updates.Terminal = d.progress.derived, d.progress.failed
	f.Failing, f.Paused = d.numErrors(), d.calls.paused
	f.States = []metrics.StateCount{{State: string(inspect.StateTerminal), Count: f.Failing}}
	return f
}

// Objects lists rows of the input. Their status is Error if their function failed or an output row that
// they want is in error, Pending if their version was not read yet, and else Done. It returns an error if
// the query is not valid.
func (d *Derived[In, Out]) Objects(_ context.Context, q inspect.ObjectQuery) (page inspect.ObjectPage, err error) {
	var after uint64
	if q.After != "" {
		if after, err = strconv.ParseUint(q.After, 10, 64); err != nil {
			return page, fmt.Errorf("after is %q, must be the next of the page before", q.After)
		}
	}
	kinds := []string{"Pending", "Refreshing", "Done", "Error", "Blocked", "Unset", "Deleted"}
	if q.Status != "" && !slices.ContainsFunc(kinds, func(kind string) bool { return strings.EqualFold(kind, q.Status) }) {
		return page, fmt.Errorf("status is %q, must be one of %s, or empty", q.Status, strings.Join(kinds, ", "))
	}
	limit, n := min(cmp.Or(max(q.Limit, 0), 50), maxPage), 0
	for row, revision := range d.in.Table.LowerBound(d.cfg.DB.ReadTxn(), statedb.ByRevision[In](after+1)) {
		if n == maxScanned || len(page.Objects) == limit {
			page.Next = strconv.FormatUint(after, 10)
			break
		}
		n, after = n+1, revision
		if line := d.line(row, revision); q.Status == "" || strings.EqualFold(q.Status, line.Status) {
			page.Objects = append(page.Objects, line)
		}
	}
	return page, nil
}

func (d *Derived[In, Out]) line(row In, revision statedb.Revision) inspect.ObjectLine {
	line := inspect.ObjectLine{Key: d.in.Name(row), State: inspect.StateDone, Revision: revision}
	key := string(d.in.Key(row))
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.errorOf(key); p != nil {
		line.State, line.Since, line.Attempts, line.Error = inspect.StateTerminal, p.Since, 1, p.Err.Error()
	} else if d.unseen(0, revision) != "" {
		line.State = inspect.StateUnseen
	}
	line.Status = statusOf[line.State]
	return line
}

// Keys returns the texts of up to limit keys of the input that begin with a prefix. It reads the first 20,000 rows only.
func (d *Derived[In, Out]) Keys(prefix string, limit int) []string {
	return d.in.Names(prefix, limit, maxScanned)
}
