// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package inputs owns the tables <table>-inputs. Such a table has a row for each input of a table of
// objects: which revision of the input the objects include, and from which revision of their table on.
// An input writes its row in the transaction of its last objects, or later: a reader of the row sees the objects.
package inputs

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/opentable"
	"github.com/statekeel/statekeel/internal/text"
)

// Input is how far a table of objects has followed one of its inputs. Inputs are immutable.
type Input struct {
	// Name is the name of the input.
	Name string
	// Input is the revision of the input that the objects include; zero if there is none yet. The
	// revisions of different inputs have nothing to do with each other.
	Input uint64
	// Output is the revision of the table of objects that includes Input; zero if there is none yet.
	Output statedb.Revision
	// Rejected is the number of objects of the input that are in error, and so not included.
	Rejected int
	// Held is the number of deletions of the input that wait for an approval: the objects still have them.
	Held int
	// Connected reports whether the input is followed, and Since is the time since when it is, or is
	// not.
	Connected bool
	Since     time.Time

	// problems are what is wrong; nil if nothing is.
	problems *Problems
	// claim belongs to the user of the input; nil if none has claimed it.
	claim *Claim
}

// TableHeader implements statedb.TableWritable.
func (*Input) TableHeader() []string {
	return []string{"Name", "Input", "Output", "Rejected", "Held", "Connected", "Since", "Problem"}
}

// TableRow implements statedb.TableWritable.
func (i *Input) TableRow() []string {
	return []string{
		text.Cell(text.Plain(i.Name)), strconv.FormatUint(i.Input, 10), strconv.FormatUint(i.Output, 10),
		strconv.Itoa(i.Rejected), strconv.Itoa(i.Held), strconv.FormatBool(i.Connected), text.Stamp(i.Since),
		text.Cell(strings.Join(i.Problems().First[:min(1, len(i.Problems().First))], "")),
	}
}

// Problems are what is wrong with an input: what it rejects and what is held. They do not change.
type Problems struct {
	// First has the texts of the first problems, and Of that of each key of the table of objects that has one.
	First []string
	Of    map[string]string
}

// Problems returns what is wrong with the input. The caller must not change it.
func (i *Input) Problems() Problems {
	if i.problems == nil {
		return Problems{}
	}
	return *i.problems
}

// SetProblems sets what is wrong with the input, in a function for [Table.Update]. What is there already is no change.
func (i *Input) SetProblems(p Problems) {
	old := i.Problems()
	switch {
	case len(p.First) == 0:
		i.problems = nil
	case !slices.Equal(p.First, old.First) || !maps.Equal(p.Of, old.Of):
		i.problems = &p
	}
}

// Of returns the inputs of a table of objects that were not released, by name; none if it has no table of inputs.
func Of(db *statedb.DB, txn statedb.ReadTxn, tableName string) (all []*Input) {
	table, is := db.GetTable(txn, tableName+suffix).(statedb.Table[*Input])
	if !is {
		return nil
	}
	for input := range table.All(txn) {
		if !input.isReleased() {
			all = append(all, input)
		}
	}
	return all
}

// Table is the table of the inputs of a table of objects. It is safe for concurrent use.
type Table struct{ rows statedb.RWTable[*Input] }

const suffix = "-inputs"

// Open returns the table <tableName>-inputs. It is registered if the database does not have it. All
// users of a table of objects share its inputs; the rows stay when a user ends.
//
// It is an error if the name is longer than statedb allows, or has other characters, and if the database
// has a table of the name with other rows. It is safe for concurrent use.
func Open(db *statedb.DB, tableName string) (*Table, error) {
	name := tableName + suffix
	if !opentable.NameRule.MatchString(name) {
		return nil, fmt.Errorf("the name of the table %q cannot be used: the name of its table of inputs, %q, does not match statedb's rule %s",
			tableName, name, opentable.NameRule)
	}
	t := &Table{}
	if err := opentable.Open(db, opentable.Of(name, "this library", newNameIndex, &t.rows)); err != nil {
		return nil, err
	}
	return t, nil
}

// All yields the inputs of all tables of a database that were not released, with the name of the table that each
// fills, as of now.
func All(db *statedb.DB) iter.Seq2[string, *Input] {
	return func(yield func(string, *Input) bool) {
		txn := db.ReadTxn()
		for _, meta := range db.GetTables(txn) {
			table, is := meta.(statedb.Table[*Input])
			if !is {
				continue
			}
			for input := range table.All(txn) {
				if !input.isReleased() && !yield(strings.TrimSuffix(meta.Name(), suffix), input) {
					return
				}
			}
		}
	}
}

// DerivedFrom returns the names of the tables that are derived from a table, by derivations that were not released; none
// if db is nil.
func DerivedFrom(db *statedb.DB, table string) (outputs []string) {
	if db == nil {
		return nil
	}
	for output, input := range All(db) {
		if input.Name == table && input.claim != nil && input.claim.derived {
			outputs = append(outputs, output)
		}
	}
	return outputs
}

// isReleased reports whether the user of the input has ended.
func (i *Input) isReleased() bool { return i.claim != nil && !i.claim.live.Load() }

// Names returns the names of the inputs that were not released, in their order.
func (t *Table) Names(txn statedb.ReadTxn) (names []string) {
	for input := range t.rows.All(txn) {
		if !input.isReleased() {
			names = append(names, input.Name)
		}
	}
	return names
}

// Meta returns the table itself: to lock it in a WriteTxn together with the table of objects, and to
// watch it. Its rows are written with the methods of Table only.
func (t *Table) Meta() statedb.RWTable[*Input] { return t.rows }

// Get returns the input with this name. found is false if it has published nothing.
func (t *Table) Get(txn statedb.ReadTxn, name string) (input *Input, found bool) {
	input, _, found = t.rows.Get(txn, byName(name))
	return input, found
}

// Watch is [Table.Get] with a channel that is closed when the input changes.
func (t *Table) Watch(txn statedb.ReadTxn, name string) (input *Input, changed <-chan struct{}, found bool) {
	input, _, changed, found = t.rows.GetWatch(txn, byName(name))
	return input, changed, found
}

// Await waits until the objects include the revision least of an input, and returns the input with a channel that is
// closed when it changes. The error is that of ctx.
func (t *Table) Await(ctx context.Context, db *statedb.DB, name string, least uint64) (*Input, <-chan struct{}, error) {
	for {
		input, changed, found := t.Watch(db.ReadTxn(), name)
		if found && input.Input >= least {
			return input, changed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// Publish writes that the objects include the revision in of the input from the revision out of their
// table on. A row that says so already is not written. A new row is connected, since now.
//
// wtxn has to lock the table of inputs; Publish panics if it does not.
func (t *Table) Publish(wtxn statedb.WriteTxn, name string, in uint64, out statedb.Revision) {
	t.Update(wtxn, name, func(row *Input) { row.Input, row.Output = in, out })
}

// Update calls change with a copy of the row of the input, and writes the copy if change has changed it.
// change must not change the name. Otherwise it is as [Table.Publish].
func (t *Table) Update(wtxn statedb.WriteTxn, name string, change func(row *Input)) {
	old, found := t.Get(wtxn, name)
	if !found {
		old = &Input{Name: name, Connected: true, Since: time.Now()}
	}
	row := *old
	change(&row)
	if found && row == *old {
		return
	}
	t.insert(wtxn, &row)
}

func (t *Table) insert(wtxn statedb.WriteTxn, row *Input) {
	if _, _, err := t.rows.Insert(wtxn, row); err != nil {
		panic(err)
	}
}

// Objects is a table of objects, as far as a claim needs it.
type Objects interface {
	PendingInitializers(statedb.ReadTxn) []string
	RegisterInitializer(statedb.WriteTxn, string) func(statedb.WriteTxn)
}

// Claim is the right to be the input of a name, and the initialiser of the table of objects for it.
type Claim struct {
	live atomic.Bool
	// only reports whether there may be no other input with a claim. derived: the name is that of a table that the
	// objects are derived from.
	only, derived bool
	// origins are those of the rows of the table, the same for all claims of a derivation.
	origins *Origins
	// succeeds: the name had another user before.
	succeeds bool
	// initialized ends the initialiser; nil if it has ended. It is read and written under the lock of
	// the table of inputs.
	initialized func(statedb.WriteTxn)
}

// Claim makes the caller the input of this name until [Claim.Release], and registers an initialiser with
// the name in the table of objects. It takes over the row of a former user, which begins at revision
// zero, not connected, and the initialiser, if that has not ended. If only is true, the table of objects
// has no other input that is claimed as long as this one is.
//
// It is an error, and nothing is changed, if the name is claimed, if another claim excludes this one,
// and if the table has an initialiser with the name that no input has registered.
//
// wtxn has to lock the table of inputs and that of objects, and has to be committed if there is no
// error.
func (t *Table) Claim(wtxn statedb.WriteTxn, objects Objects, name string, only bool) (*Claim, error) {
	return t.claim(wtxn, objects, name, &Claim{only: only}, nil)
}

// Claims are those of one derivation.
type Claims []*Claim

// ClaimTables is [Table.Claim] for each of the tables that the objects are derived from; there is no other input then.
// It is also an error if one of the tables is derived from that of the objects, by claims that were not released.
func (t *Table) ClaimTables(db *statedb.DB, wtxn statedb.WriteTxn, objects Objects, names []string) (claims Claims, err error) {
	if circle := circle(db, names, strings.TrimSuffix(t.rows.Name(), suffix)); circle != nil {
		return nil, fmt.Errorf("it would be derived from itself: %s", strings.Join(circle, " from "))
	}
	origins := new(Origins)
	for _, name := range names {
		claim, err := t.claim(wtxn, objects, name, &Claim{only: true, derived: true, origins: origins}, claims)
		if err != nil {
			claims.Release()
			return nil, err
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// circle returns the tables from to, over one of the names, back to to; nil if none of them is derived from to.
func circle(db *statedb.DB, names []string, to string) []string {
	from := map[string][]string{to: names}
	for table, input := range All(db) {
		if table != to && input.claim != nil && input.claim.derived {
			from[table] = append(from[table], input.Name)
		}
	}
	seen := map[string]bool{}
	var way func(at string) []string
	way = func(at string) []string {
		for _, next := range from[at] {
			if next == to {
				return []string{at, to}
			}
			if !seen[next] {
				seen[next] = true
				if rest := way(next); rest != nil {
					return append([]string{at}, rest...)
				}
			}
		}
		return nil
	}
	return way(to)
}

// Initialized is [Claim.Initialized] for each.
func (c Claims) Initialized(wtxn statedb.WriteTxn) {
	for _, claim := range c {
		claim.Initialized(wtxn)
	}
}

// Succeed reports whether the table was derived from one of the tables before.
func (c Claims) Succeed() bool {
	return slices.ContainsFunc(c, func(one *Claim) bool { return one.succeeds })
}

// Release is [Claim.Release] for each.
func (c Claims) Release() {
	for _, claim := range c {
		claim.Release()
	}
}

// claim makes claim the one of a name. with are claims of the same user.
func (t *Table) claim(wtxn statedb.WriteTxn, objects Objects, name string, claim *Claim, with Claims) (*Claim, error) {
	for row := range t.rows.All(wtxn) {
		switch {
		case row.claim == nil || slices.Contains(with, row.claim):
		case !row.claim.live.Load():
			if row.Name == name {
				claim.initialized, claim.succeeds = row.claim.initialized, true
			}
		case row.Name == name:
			return nil, fmt.Errorf("another input with the name %q is open", name)
		case claim.only || row.claim.only:
			return nil, fmt.Errorf("the input %q is open, and not both have rows with owners", row.Name)
		}
	}
	if claim.initialized == nil {
		for _, pending := range objects.PendingInitializers(wtxn) {
			if pending == name {
				return nil, fmt.Errorf("the table has another initialiser with the name %q", name)
			}
		}
		claim.initialized = objects.RegisterInitializer(wtxn, name)
	}
	claim.live.Store(true)
	t.insert(wtxn, &Input{Name: name, Since: time.Now(), claim: claim})
	return claim, nil
}

// Initialized ends the initialiser. Further calls do nothing. wtxn has to lock both tables, and has to
// be committed.
func (c *Claim) Initialized(wtxn statedb.WriteTxn) {
	if c.initialized != nil {
		c.initialized(wtxn)
		c.initialized = nil
	}
}

// Release lets another user claim the name. An initialiser that has not ended stays, for the next one.
// It is called after the last write, and is safe for concurrent use.
func (c *Claim) Release() { c.live.Store(false) }

// The index of the names. Names are any text: they are no part of a longer key.
func newNameIndex() statedb.Index[*Input, string] { return nameIndex }

var nameIndex = statedb.Index[*Input, string]{
	Name:       "name",
	FromObject: func(i *Input) index.KeySet { return index.NewKeySet(index.String(i.Name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

func byName(name string) statedb.Query[*Input] { return nameIndex.Query(name) }
