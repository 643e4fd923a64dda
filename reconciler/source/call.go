// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package source

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/internal/usercall"
)

const (
	// hold is for how long a piece holds the lock, with the commit as it is expected. The object that is
	// being written comes on top.
	hold = 3 * time.Millisecond
	// firstPerRow is what the commit of a row is expected to cost before one was measured.
	firstPerRow = 100 * time.Microsecond
	// between is how many objects are compared between two looks at the context.
	between = 256
	// maxErrors bounds the errors that a call returns.
	maxErrors = 100
)

// call is one Replace or Apply: it plans the steps on a snapshot, without a lock, and then
// writes them in pieces.
type call[Obj any] struct {
	*Sink[Obj]
	ctx      context.Context
	snapshot statedb.ReadTxn

	steps []step[Obj]
	// publish is called in the transaction of the last step, with the revision of the table.
	publish func(wtxn statedb.WriteTxn, out statedb.Revision)

	// allowEmpty reports whether rows are removed although no object of the list was accepted, and accepted
	// is the number of those.
	allowEmpty bool
	accepted   int
	// keys are the keys that the call is about. rejected has the objects of them that are in error,
	// unnamed is the number of objects without a usable key.
	keys     map[string]struct{}
	rejected map[string]error
	unnamed  int
	// errs are the first errors of objects, failed is the number of all.
	errs   []error
	failed int
	// changed is the number of rows that were changed in committed transactions.
	changed int
	// panicked reports whether a panic was logged: one is enough for a call.
	panicked bool
}

// wish is what a call wants for one key.
type wish[Obj any] struct {
	obj     Obj
	key     string
	deleted bool
	// unlisted reports whether the deletion is of a row that the list does not have. It is no error if
	// another source has taken the row.
	unlisted bool
}

// step is a wish that a row does not meet.
type step[Obj any] struct {
	wish[Obj]
	// revision is that of the row that the wish was compared with; 0 if there was none.
	revision statedb.Revision
	// row is what to write, if the wish is no deletion.
	row Obj
}

func (s *Sink[Obj]) newCall(ctx context.Context) *call[Obj] {
	return &call[Obj]{Sink: s, ctx: ctx, snapshot: s.cfg.DB.ReadTxn(), rejected: map[string]error{}}
}

// planList plans what makes the rows those of a full list.
func (c *call[Obj]) planList(list []Obj) error {
	c.keys = make(map[string]struct{}, len(list))
	for i, obj := range list {
		if err := c.pause(i); err != nil {
			return err
		}
		key, ok := c.keyOf(i, obj)
		if !ok {
			continue
		}
		if _, twice := c.keys[key]; twice {
			c.reject(key, fmt.Errorf("%s is in the list twice, the first one counts", c.name(obj)))
			continue
		}
		c.keys[key] = struct{}{}
		c.plan(wish[Obj]{obj: obj, key: key})
	}
	if c.unnamed > 0 {
		return nil
	}
	i := 0
	for row, revision := range c.cfg.Table.All(c.snapshot) {
		if err := c.pause(i); err != nil {
			return err
		}
		i++
		key := c.rows.Key(row)
		if _, listed := c.keys[string(key)]; listed {
			continue
		}
		owner, err := c.ownerOf(row)
		if err != nil {
			c.reject(string(key), err)
		} else if owner == c.cfg.Name {
			w := wish[Obj]{obj: row, key: string(key), deleted: true, unlisted: true}
			c.steps = append(c.steps, step[Obj]{wish: w, revision: revision})
		}
	}
	return nil
}

// planChanges plans the last change of each key.
func (c *call[Obj]) planChanges(changes []Change[Obj]) error {
	last := make(map[string]int, len(changes))
	wishes := make([]wish[Obj], 0, len(changes))
	c.keys = make(map[string]struct{}, len(changes))
	for i, change := range changes {
		key, ok := c.keyOf(i, change.Object)
		if !ok {
			continue
		}
		w := wish[Obj]{obj: change.Object, key: key, deleted: change.Deleted}
		if at, again := last[key]; again {
			wishes[at] = w
			continue
		}
		last[key] = len(wishes)
		wishes = append(wishes, w)
		c.keys[key] = struct{}{}
	}
	for i, w := range wishes {
		if err := c.pause(i); err != nil {
			return err
		}
		c.plan(w)
	}
	return nil
}

// pause returns an error when a call that has compared n objects must end.
func (c *call[Obj]) pause(n int) error {
	if n%between != 0 {
		return nil
	}
	return c.stopped(c.ctx)
}

// keyOf returns the key of the object with this index in the arguments; false if it has none.
func (c *call[Obj]) keyOf(i int, obj Obj) (key string, ok bool) {
	err := c.guard("the primary index", func() error {
		made, err := c.rows.KeyOf(obj)
		key = string(made)
		return err
	})
	if err != nil {
		c.unnamed++
		c.fail(fmt.Errorf("object %d of the call has no usable key: %w", i, err))
	}
	return key, err == nil
}

func (c *call[Obj]) plan(w wish[Obj]) {
	next, needed, err := c.decide(c.snapshot, w)
	if err != nil {
		c.rejectWish(w, err)
	} else if needed {
		c.steps = append(c.steps, next)
	}
	if err == nil {
		c.accepted++
	}
}

// decide compares a wish with the row of its key. It reports whether a step is needed, and which.
func (c *call[Obj]) decide(txn statedb.ReadTxn, w wish[Obj]) (next step[Obj], needed bool, err error) {
	c.running.Begin(usercall.Owner, w.key)
	defer c.running.End()
	err = c.guard("a function of the source", func() error {
		next, needed, err = c.compare(txn, w)
		return err
	})
	return next, needed, err
}

func (c *call[Obj]) compare(txn statedb.ReadTxn, w wish[Obj]) (next step[Obj], needed bool, err error) {
	next = step[Obj]{wish: w, row: w.obj}
	if !w.deleted {
		if owner := c.owner(w.obj); owner != c.cfg.Name {
			return next, false, fmt.Errorf("%s: the object belongs to %s, not to this source", c.name(w.obj), quoted(owner))
		}
	}
	row, revision, found := c.rows.Get(txn, w.obj)
	next.revision = revision
	if !found {
		return next, !w.deleted, nil
	}
	owner := c.owner(row)
	switch {
	case owner != c.cfg.Name && w.unlisted:
		return next, false, nil
	case owner != c.cfg.Name:
		return next, false, foreignRow(fmt.Sprintf("%s: the row belongs to %s", c.name(row), quoted(owner)))
	case w.deleted:
		return next, true, nil
	}
	c.running.Next(usercall.Same)
	if c.cfg.Same(row, w.obj) {
		return next, false, nil
	}
	c.running.Next(usercall.Merge)
	next.row = c.cfg.Merge(row, w.obj)
	return next, true, c.check(row, &next)
}

// check returns an error if a step must not be written in place of a row.
func (c *call[Obj]) check(row Obj, next *step[Obj]) error {
	if identical(row, next.row) {
		return fmt.Errorf("%s: Same reports a difference, but what is to be written is the row itself", c.name(row))
	}
	if key, err := c.rows.KeyOf(next.row); err != nil {
		return fmt.Errorf("%s: Merge returned a row without a usable key: %w", c.name(row), err)
	} else if string(key) != next.key {
		return fmt.Errorf("%s: Merge returned a row with another key, %s", c.name(row), c.name(next.row))
	}
	if owner := c.owner(next.row); owner != c.cfg.Name {
		return fmt.Errorf("%s: Merge returned a row that belongs to %s", c.name(row), quoted(owner))
	}
	return nil
}

// identical reports whether two objects are the same pointer. statedb panics if a row is replaced by
// itself.
func identical(a, b any) bool {
	one, two := reflect.ValueOf(a), reflect.ValueOf(b)
	return one.Kind() == reflect.Pointer && two.Kind() == reflect.Pointer && one.Pointer() == two.Pointer()
}

// write writes the steps in pieces. If there are none, it publishes only if always is true.
func (c *call[Obj]) write(always bool) error {
	if len(c.steps) == 0 {
		if always {
			c.publishOnly()
		}
		return nil
	}
	for len(c.steps) > 0 {
		if err := c.stopped(c.ctx); err != nil {
			return err
		}
		if c.refused() {
			return fmt.Errorf("%w, and every object is rejected: no row is removed", ErrEmpty)
		}
		n, err := c.piece(len(c.steps))
		if err == nil {
			c.steps = c.steps[n:]
			continue
		}
		// The index functions of step n panicked. Its transaction is lost, so the steps before it are
		// written once more.
		c.drop(c.steps[n].wish, fmt.Errorf("%s: %w", c.name(c.steps[n].obj), err))
		c.steps = slices.Delete(c.steps, n, n+1)
		if n == 0 && len(c.steps) > 0 {
			continue
		}
		if n, err = c.piece(n); err != nil {
			return err
		}
		c.steps = c.steps[n:]
	}
	return nil
}

// publishOnly publishes that the snapshot includes the input.
func (c *call[Obj]) publishOnly() {
	tables := []statedb.TableMeta{c.inputs.Meta()}
	if !c.initialized {
		tables = append(tables, c.cfg.Table)
	}
	wtxn := c.cfg.DB.WriteTxn(tables...)
	defer wtxn.Abort()
	c.publish(wtxn, c.cfg.Table.Revision(c.snapshot))
	wtxn.Commit()
}

// refused reports whether the next step removes a row that is not in a list of which no object is accepted.
func (c *call[Obj]) refused() bool { return c.steps[0].unlisted && c.accepted == 0 && !c.allowEmpty }

// piece writes steps in one transaction, at most most, until the table was locked for long enough. It
// publishes if no further step is left. It returns the number of steps that are done. If there is an
// error, nothing is written, and done is the number of the step that caused it.
func (c *call[Obj]) piece(most int) (done int, err error) {
	wtxn := c.cfg.DB.WriteTxn(c.cfg.Table, c.inputs.Meta())
	defer wtxn.Abort()
	locked := time.Now()
	type rejection struct {
		wish[Obj]
		err error
	}
	var rejections []rejection
	written := 0
	for done < most && (done == 0 || time.Since(locked)+time.Duration(written)*c.perRow < hold) {
		next, needed := c.steps[done], true
		if len(rejections) > 0 && next.unlisted && !c.steps[done-1].unlisted {
			// Whether rows are removed depends on how many objects were accepted.
			break
		}
		if _, revision, _ := c.rows.Get(wtxn, next.obj); revision != next.revision {
			if next, needed, err = c.decide(wtxn, next.wish); err != nil {
				rejections, needed = append(rejections, rejection{c.steps[done].wish, err}), false
			}
		}
		if needed {
			if err := c.put(wtxn, &next); err != nil {
				return done, err
			}
			written++
		}
		done++
	}
	for _, r := range rejections {
		c.drop(r.wish, r.err)
	}
	if done == len(c.steps) {
		c.publish(wtxn, c.cfg.Table.Revision(wtxn))
	}
	began := time.Now()
	wtxn.Commit()
	c.perRow = time.Since(began) / time.Duration(max(1, written))
	c.changed += written
	return done, nil
}

// put writes a step. After an error the transaction has to be aborted.
func (c *call[Obj]) put(wtxn statedb.WriteTxn, next *step[Obj]) error {
	c.running.Begin(usercall.Index, next.key)
	defer c.running.End()
	return c.guard("an index", func() (err error) {
		if next.deleted {
			_, _, err = c.cfg.Table.Delete(wtxn, next.obj)
		} else {
			_, _, err = c.cfg.Table.Insert(wtxn, next.row)
		}
		return err
	})
}

// guard calls a function that calls functions of the user, and returns a panic as an error.
func (c *call[Obj]) guard(what string, call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			said := text.Cut(outcome.TextOfAny(r), outcome.MaxText)
			if !c.panicked {
				c.panicked = true
				c.log.Error("a function of a source panicked", "function", what, "panic", said, "stack", string(debug.Stack()))
			}
			err = fmt.Errorf("panic in %s: %s", what, said)
		}
	}()
	return call()
}

// owner returns the owner of a row or of an object.
func (s *Sink[Obj]) owner(obj Obj) string {
	if s.cfg.Owner == nil {
		return s.cfg.Name
	}
	return s.cfg.Owner(obj)
}

func (c *call[Obj]) ownerOf(row Obj) (owner string, err error) {
	err = c.guard("Owner", func() error {
		owner = c.owner(row)
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", c.name(row), err)
	}
	return owner, err
}

// count returns the number of rows of this source.
func (s *Sink[Obj]) count(txn statedb.ReadTxn) (n int) {
	if s.cfg.Owner == nil {
		return s.cfg.Table.NumObjects(txn)
	}
	c := &call[Obj]{Sink: s}
	for row := range s.cfg.Table.All(txn) {
		if owner, err := c.ownerOf(row); err == nil && owner == s.cfg.Name {
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

// foreignRow is the error of a wish for a row that belongs to another owner.
type foreignRow string

func (e foreignRow) Error() string { return string(e) }

// rejectWish rejects a wish. The deletion of a row of another owner is an error, but not rejected: the source
// wants nothing, and has nothing.
func (c *call[Obj]) rejectWish(w wish[Obj], err error) {
	if _, foreign := err.(foreignRow); w.deleted && foreign {
		c.fail(err)
		return
	}
	c.reject(w.key, err)
}

// drop rejects a wish that was planned.
func (c *call[Obj]) drop(w wish[Obj], err error) {
	if !w.deleted {
		c.accepted--
	}
	c.rejectWish(w, err)
}

func (c *call[Obj]) reject(key string, err error) {
	c.rejected[key] = err
	c.fail(err)
}

func (c *call[Obj]) fail(err error) {
	c.failed++
	if len(c.errs) < maxErrors {
		c.errs = append(c.errs, err)
	}
}

// numRejected returns how many objects are rejected after the call, if these were before it.
func (c *call[Obj]) numRejected(before map[string]error) int {
	n := len(before) + c.unnamed + len(c.rejected)
	if len(before) == 0 {
		return n
	}
	for key := range c.keys {
		if _, was := before[key]; was {
			n--
		}
	}
	return n
}

// errors returns the error of the call: why it ended, and those of its objects.
func (c *call[Obj]) errors(end error) error {
	errs := c.errs
	if end != nil {
		errs = append([]error{end}, errs...)
	}
	if more := c.failed - len(c.errs); more > 0 {
		errs = append(errs, fmt.Errorf("%d further errors omitted", more))
	}
	if len(errs) == 0 {
		return nil
	}
	return c.named(errors.Join(errs...))
}
