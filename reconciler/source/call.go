// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/text"
)

const (
	// hold is for how long a piece holds the lock, with the commit as it is expected. The object that is
	// being written comes on top.
	hold = 3 * time.Millisecond
	// firstPerRow is what the commit of a row is expected to cost before one was measured.
	firstPerRow = 100 * time.Microsecond
	// maxErrors bounds the errors that a call returns.
	maxErrors = 100
)

// call is one Replace or Apply: it plans the steps on a snapshot, without a lock, and then
// writes them in pieces.
type call[Obj any] struct {
	*Sink[Obj]
	ctx      context.Context
	snapshot statedb.ReadTxn
	// at is the revision of the source after the call. list reports whether the call is a Replace.
	at   uint64
	list bool
	// approves reports whether the call is an Approve.
	approves bool
	// allowEmpty reports whether rows are removed although no object of the list was accepted, and accepted
	// is the number of those.
	allowEmpty bool
	accepted   int
	// complete reports whether every object of the call has a usable key.
	complete bool
	// hold are the deletions that are held after the call; nil if none is. held is the number of those of this call.
	hold *heldSet[Obj]
	held int
	// gapsBefore is Sink.gaps at the beginning. moves reports whether the revision of the input moves to at.
	gapsBefore uint64
	moves      bool

	// steps are what is left to write. most bounds those of the next piece; zero is no bound.
	steps []step[Obj]
	most  int
	// published reports whether the row of the source in the table of inputs is that after the call, and
	// connected whether the call has made the source connected.
	published, connected bool

	// rejected are the objects in error after the call.
	rejected rejections
	// errs are the errors of objects of the call.
	errs []error
	// changed is the number of rows that were changed in committed transactions.
	changed int
	// panicked reports whether a panic was logged: one is enough for a call.
	panicked bool
}

// step is what a call wants for one key.
type step[Obj any] struct {
	obj     Obj
	key     string
	deleted bool
	// unlisted reports whether the deletion is of a row that the list does not have. It is no error if
	// another source has taken the row.
	unlisted bool

	// needed reports whether the row has to be written, or deleted.
	needed bool
	// revision is that of the row that the step was compared with; 0 if there was none.
	revision statedb.Revision
	// row is what to write, if the step is no deletion.
	row Obj
}

// planList plans what makes the rows those of a full list.
func (c *call[Obj]) planList(list []Obj, allowEmpty bool) error {
	c.list, c.allowEmpty = true, allowEmpty
	listed := make(map[string]struct{}, len(list))
	for i, obj := range list {
		if err := c.stopped(c.ctx); err != nil {
			return err
		}
		key, ok := c.keyAt(i, obj)
		_, twice := listed[key]
		switch {
		case !ok:
		case twice:
			c.reject(key, fmt.Errorf("%s is in the list twice, the first one counts", c.name(obj)))
		default:
			listed[key] = struct{}{}
			c.plan(step[Obj]{obj: obj, key: key})
		}
	}
	if !c.complete {
		return nil
	}
	for row, revision := range c.cfg.Table.All(c.snapshot) {
		if err := c.stopped(c.ctx); err != nil {
			return err
		}
		key := c.rows.Key(row)
		if _, is := listed[string(key)]; is {
			continue
		}
		if owned, err := c.owns(row); err != nil {
			c.reject(string(key), fmt.Errorf("%s: %w", c.name(row), err))
		} else if owned {
			c.steps = append(c.steps, step[Obj]{
				obj: row, key: string(key), deleted: true, unlisted: true, needed: true, revision: revision,
			})
		}
	}
	if n := len(c.steps); len(list) == 0 && n > 0 && !c.allowEmpty {
		return fmt.Errorf("%w: Config.AllowEmpty is false, %d row(s) stay", ErrEmpty, n)
	}
	if c.accepted == 0 && !c.allowEmpty && slices.ContainsFunc(c.steps, func(s step[Obj]) bool { return s.unlisted }) {
		return nil // write refuses it
	}
	c.hold = nil
	c.holdDeletions()
	return nil
}

// planChanges plans the last change of each key.
func (c *call[Obj]) planChanges(changes []Change[Obj]) error {
	// Other keys stay in error, and held.
	c.rejected = rejections{byKey: maps.Clone(c.Sink.rejected.byKey), unnamed: c.Sink.rejected.unnamed}
	last := make(map[string]int, len(changes))
	steps := make([]step[Obj], 0, len(changes))
	for i, change := range changes {
		key, ok := c.keyAt(i, change.Object)
		if !ok {
			continue
		}
		at, again := last[key]
		if !again {
			at, steps = len(steps), append(steps, step[Obj]{})
			last[key] = at
		}
		steps[at] = step[Obj]{obj: change.Object, key: key, deleted: change.Deleted}
	}
	for _, s := range steps {
		if err := c.stopped(c.ctx); err != nil {
			return err
		}
		delete(c.rejected.byKey, s.key)
		c.plan(s)
	}
	c.hold = c.hold.without(c, last)
	c.holdDeletions()
	return nil
}

// keyAt returns the key of the object with this index in the arguments; false if it has none.
func (c *call[Obj]) keyAt(i int, obj Obj) (key string, ok bool) {
	key, err := c.keyOf(obj)
	if err != nil {
		c.complete = false
		c.rejected.unnamed++
		c.errs = append(c.errs, fmt.Errorf("object %d of the call has no usable key: %w", i, err))
	}
	return key, err == nil
}

func (c *call[Obj]) keyOf(obj Obj) (key string, err error) {
	defer c.recovered("the primary index", &err)
	made, err := c.rows.KeyOf(obj)
	return string(made), err
}

func (c *call[Obj]) plan(s step[Obj]) {
	c.accepted++
	c.decide(c.snapshot, &s)
	if s.needed {
		c.steps = append(c.steps, s)
	}
}

// decide compares a step with the row of its key, and rejects what is in error.
func (c *call[Obj]) decide(txn statedb.ReadTxn, s *step[Obj]) {
	if err := c.compare(txn, s); err != nil {
		c.drop(s, err)
	}
}

// compare sets whether a step is needed, and what it writes in place of which row.
func (c *call[Obj]) compare(txn statedb.ReadTxn, s *step[Obj]) (err error) {
	c.running.Begin(guard.Owner, s.key)
	defer c.running.End()
	defer c.recovered("a function of the source", &err)
	if !s.deleted {
		if owner := c.owner(s.obj); owner != c.cfg.Name {
			return fmt.Errorf("%s: the object belongs to %s, not to this source", c.name(s.obj), quoted(owner))
		}
	}
	row, revision, found := c.rows.Get(txn, s.obj)
	s.row, s.revision, s.needed = s.obj, revision, found == s.deleted
	if !found {
		return nil
	}
	if owner := c.owner(row); owner != c.cfg.Name {
		s.needed = false
		err := fmt.Errorf("%s: the row belongs to %s", c.name(row), quoted(owner))
		if !s.deleted {
			return err
		}
		if !s.unlisted {
			// An error, but nothing is rejected: the source wants nothing, and has nothing.
			c.errs = append(c.errs, err)
		}
		return nil
	}
	if s.deleted {
		return nil
	}
	c.running.Next(guard.Same)
	if c.cfg.Same(row, s.obj) {
		return nil
	}
	c.running.Next(guard.Merge)
	s.needed, s.row = true, c.cfg.Merge(row, s.obj)
	return c.check(row, s)
}

// check returns an error if a step must not be written in place of a row.
func (c *call[Obj]) check(row Obj, s *step[Obj]) error {
	// statedb panics if a row is replaced by itself.
	if reflect.ValueOf(row).Kind() == reflect.Pointer && any(row) == any(s.row) {
		return fmt.Errorf("%s: Same reports a difference, but what is to be written is the row itself", c.name(row))
	}
	if key, err := c.rows.KeyOf(s.row); err != nil {
		return fmt.Errorf("%s: Merge returned a row without a usable key: %w", c.name(row), err)
	} else if string(key) != s.key {
		return fmt.Errorf("%s: Merge returned a row with another key, %s", c.name(row), c.name(s.row))
	}
	if owner := c.owner(s.row); owner != c.cfg.Name {
		return fmt.Errorf("%s: Merge returned a row that belongs to %s", c.name(row), quoted(owner))
	}
	return nil
}

// write writes the steps in pieces, and publishes.
func (c *call[Obj]) write() error {
	for !c.published {
		if err := c.stopped(c.ctx); err != nil {
			return err
		}
		if c.refuses(0) {
			return fmt.Errorf("%w, and every object is rejected: no row is removed", ErrEmpty)
		}
		c.piece()
	}
	return nil
}

// refuses reports whether step i removes a row that is not in a list of which no object is accepted.
func (c *call[Obj]) refuses(i int) bool {
	return i < len(c.steps) && c.steps[i].unlisted && c.accepted == 0 && !c.allowEmpty
}

// piece writes steps in one transaction, until the table was locked for long enough, and publishes if no further
// step is left. If the index functions of a step panic, that step is dropped, and nothing is written.
func (c *call[Obj]) piece() {
	tables := []statedb.TableMeta{c.inputs.Meta()}
	if len(c.steps) > 0 || c.changed > 0 || !c.listed {
		tables = append(tables, c.cfg.Table)
	}
	wtxn := c.cfg.DB.WriteTxn(tables...)
	defer wtxn.Abort()
	locked := time.Now()
	done, written, most := 0, 0, cmp.Or(c.most, len(c.steps))
	for done < most && !c.refuses(done) && (done == 0 || time.Since(locked)+time.Duration(written)*c.perRow < hold) {
		s := &c.steps[done]
		if _, revision, _ := c.rows.Get(wtxn, s.obj); s.needed && revision != s.revision {
			c.decide(wtxn, s)
		}
		if s.needed {
			if err := c.put(wtxn, s); err != nil {
				c.drop(s, fmt.Errorf("%s: %w", c.name(s.obj), err))
				// The steps before it come first, so that the next panic does not undo them once more.
				c.steps, c.most = slices.Delete(c.steps, done, done+1), done
				return
			}
			written++
		}
		done++
	}
	c.steps, c.most = c.steps[done:], 0
	if len(c.steps) == 0 {
		c.publish(wtxn)
	}
	began := time.Now()
	wtxn.Commit()
	if written > 0 {
		c.perRow = time.Since(began) / time.Duration(written)
		c.changed += written
	}
}

// put writes a step. After an error the transaction has to be aborted.
func (c *call[Obj]) put(wtxn statedb.WriteTxn, s *step[Obj]) (err error) {
	c.running.Begin(guard.Index, s.key)
	defer c.running.End()
	defer c.recovered("an index", &err)
	if s.deleted {
		_, _, err = c.cfg.Table.Delete(wtxn, s.obj)
	} else {
		_, _, err = c.cfg.Table.Insert(wtxn, s.row)
	}
	return err
}

// recovered is deferred around calls of functions of the user, and returns a panic as an error.
func (c *call[Obj]) recovered(what string, err *error) {
	if r := recover(); r != nil {
		log := c.log
		if c.panicked {
			log = nil
		}
		c.panicked = true
		*err = fmt.Errorf("panic in %s: %s", what, guard.Panicked(r, log, "a function of a source panicked", "function", what))
	}
}

// owner returns the owner of a row or of an object.
func (s *Sink[Obj]) owner(obj Obj) string {
	if s.cfg.Owner == nil {
		return s.cfg.Name
	}
	return s.cfg.Owner(obj)
}

// owns reports whether a row is one of this source.
func (c *call[Obj]) owns(row Obj) (is bool, err error) {
	defer c.recovered("Owner", &err)
	return c.owner(row) == c.cfg.Name, nil
}

// count returns the number of rows of this source.
func (s *Sink[Obj]) count(txn statedb.ReadTxn) (n int) {
	if s.cfg.Owner == nil {
		return s.cfg.Table.NumObjects(txn)
	}
	c := &call[Obj]{Sink: s}
	for row := range s.cfg.Table.All(txn) {
		if owned, _ := c.owns(row); owned {
			n++
		}
	}
	return n
}

// name returns the key of an object for errors.
func (c *call[Obj]) name(obj Obj) string { return text.Cut(c.rows.Name(obj), maxName) }

// quoted returns the name of an owner for errors.
func quoted(owner string) string { return strconv.Quote(text.Cut(owner, maxName)) }

// maxName bounds the bytes of a key or of an owner in an error.
const maxName = 200

// drop rejects the object of a step, which is then not needed.
func (c *call[Obj]) drop(s *step[Obj], err error) {
	s.needed = false
	if !s.unlisted {
		c.accepted--
	}
	c.reject(s.key, err)
}

func (c *call[Obj]) reject(key string, err error) {
	c.rejected.byKey[key] = err
	c.errs = append(c.errs, err)
}

// errors returns the error of the call: why it ended, and those of its objects.
func (c *call[Obj]) errors(end error) error {
	errs := c.errs
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Errorf("%d further errors omitted", more))
	}
	all := errors.Join(append([]error{end}, errs...)...)
	if all == nil {
		return nil
	}
	return c.named(all)
}
