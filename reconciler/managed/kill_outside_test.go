// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// outside is a system that answers what was so a while ago: what was created is not seen yet, and
// what was deleted is seen for some time. What it is asked to do it does at once. Its fields are
// guarded by the lock of the world.
type outside struct {
	// chosen: it chooses the names of what it creates; else they are those of the rows.
	chosen  bool
	created int
	past    map[string][]version
	// lag is how long ago it was what is told next.
	lag func() time.Duration
	// stays says of a resource whose deletion is asked for whether it stays for now.
	stays func(id string) bool
	// down: all calls fail. faults: they do at random.
	down   bool
	faults bool
	rnd    *rand.Rand
	// creates are the errors of the first creates of each object, of which those that are
	// [managed.ErrCreateUnsure] happen all the same. tried counts them.
	creates []error
	tried   map[string]int
	// twice is what was created though there was one.
	twice []string
	// takes is how long what is deleted goes on to exist.
	takes time.Duration
	// marked are the names of what was left on purpose.
	marked map[string]bool
	// late is what was asked to be created when nobody waited for it any more.
	late []string
}

// version is what one resource is from a time on.
type version struct {
	since  time.Time
	owner  string
	size   int
	exists bool
}

// is returns what a resource is.
func (o *outside) is(id string) version { return o.at(id, time.Now()) }

// was returns what is told of a resource.
func (o *outside) was(id string) version { return o.at(id, time.Now().Add(-o.lag())) }

func (o *outside) at(id string, at time.Time) (v version) {
	for _, of := range o.past[id] {
		if !of.since.After(at) {
			v = of
		}
	}
	return v
}

// going reports whether a resource is being deleted, and still exists.
func (o *outside) going(id string) bool {
	past := o.past[id]
	return len(past) > 0 && past[len(past)-1].since.After(time.Now())
}

func (o *outside) becomes(id string, v version) {
	v.since = time.Now()
	o.past[id] = append(o.past[id], v)
}

// owned returns the names of what exists for an object.
func (o *outside) owned(owner string) (ids []string) {
	for id := range o.past {
		if v := o.is(id); v.exists && v.owner == owner {
			ids = append(ids, id)
		}
	}
	return ids
}

// create creates what is wanted, under the name that it may have. It does nothing if there is
// something of that name.
func (o *outside) create(owner, name string, size int) (id string) {
	if o.chosen {
		o.created++
		name = fmt.Sprintf("%s-%d", owner, o.created)
	}
	if o.is(name).exists {
		return name
	}
	if others := o.owned(owner); len(others) > 0 {
		o.twice = append(o.twice, fmt.Sprintf("%s beside %v", name, others))
	}
	o.becomes(name, version{owner: owner, size: size, exists: true})
	return name
}

var (
	errNotFound = errors.New("404")
	errRefused  = errors.New("quota")
	errDown     = errors.New("503")
	errGoing    = errors.New("409")
)

// fate returns the error of the next create of an object.
func (o *outside) fate(owner string) error {
	n := o.tried[owner]
	o.tried[owner]++
	if n < len(o.creates) {
		return o.creates[n]
	}
	return nil
}

func (o *outside) update(id string, size int) error {
	v := o.is(id)
	switch {
	case !v.exists:
		return errNotFound
	case o.going(id):
		return errGoing
	}
	delete(o.marked, id)
	v.size = size
	o.becomes(id, v)
	return nil
}

func (o *outside) remove(id string) {
	if v := o.is(id); v.exists && !o.going(id) && !o.stays(id) {
		v.exists, v.since = false, time.Now().Add(o.takes)
		o.past[id] = append(o.past[id], v)
		delete(o.marked, id)
	}
}

// failing says what a call is going to fail with: before it does anything, or after.
func (o *outside) failing() (before, after error, slow bool) {
	if o.down {
		return errDown, nil, false
	}
	if !o.faults {
		return nil, nil, false
	}
	switch o.rnd.IntN(24) {
	case 0:
		before = errDown
	case 1:
		before = reconciler.RetryAfter(errors.New("429"), time.Second)
	case 2, 3:
		after = fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
	case 4:
		slow = true
	}
	return before, after, slow
}

// connection is a client of one pass of one process.
type connection struct {
	p   *process
	key string
}

var (
	_ managed.ExternalClient[*bucket] = (*connection)(nil)
	_ managed.ExternalDisconnecter    = (*connection)(nil)
)

// Connect makes a client for a pass.
func (p *process) Connect(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
	c := &connection{p, b.Name}
	return c, c.call(ctx, "connect", func(*outside) error { return nil })
}

// call does something outside, if the process lives to do it, and answers, if it lives to hear it.
func (c *connection) call(ctx context.Context, op string, do func(o *outside) error) error {
	if err := c.p.reach("before "+op, c.key); err != nil {
		return err
	}
	c.p.share(c.key, false)
	var before, after error
	var slow bool
	if err := c.p.alive(func(w *world) error {
		before, after, slow = w.outside.failing()
		return before
	}); err != nil {
		return err
	}
	if slow {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	answer := c.p.alive(func(w *world) error { return do(w.outside) })
	if answer != nil && !errors.Is(answer, managed.ErrCreateUnsure) {
		return answer
	}
	if err := c.p.reach("after "+op, c.key); err != nil {
		return err
	}
	// Who does not wait any more hears no answer.
	return errors.Join(answer, after, ctx.Err())
}

func (c *connection) Observe(ctx context.Context, b *bucket) (seen managed.ExternalObservation, err error) {
	err = c.call(ctx, "observe", func(o *outside) error {
		v := o.was(managed.GetExternalName(b))
		if !v.exists {
			return nil
		}
		seen.ResourceExists, seen.ResourceUpToDate = true, v.size == b.Size && !o.marked[managed.GetExternalName(b)]
		b.Seen = v.size
		if b.Region == "" {
			b.Region, seen.ResourceLateInitialized = "north", true
		}
		return nil
	})
	return seen, err
}

// heed notes a create that begins when its context has ended. With several workers another one
// may end the process right before.
func (p *process) heed(ctx context.Context, name string) {
	if p.w.workers == 1 && ctx.Err() != nil {
		p.w.change(func() { p.w.outside.late = append(p.w.outside.late, name) })
	}
}

func (c *connection) Create(ctx context.Context, b *bucket) error {
	// What is about to be created has to be known before, to a process that has lost its table.
	if c.p.w.filed() {
		if err := c.p.file("file-pending", b); err != nil {
			return err
		}
	}
	c.p.heed(ctx, b.Name)
	var id string
	if err := c.call(ctx, "create", func(o *outside) error {
		err := o.fate(b.Name)
		if err == nil || errors.Is(err, managed.ErrCreateUnsure) {
			id = o.create(b.Name, managed.GetExternalName(b), b.Size)
		}
		return err
	}); err != nil {
		return err
	}
	managed.SetExternalName(b, id)
	noteZone(b, id)
	return nil
}

func (c *connection) Update(ctx context.Context, b *bucket) error {
	return c.call(ctx, "update", func(o *outside) error {
		err := o.update(managed.GetExternalName(b), b.Size)
		// A pass that began before the row was marked for deletion may still update what stays.
		if size, stays := c.p.w.left[b.Name]; err == nil && stays && size != anySize && !managed.WasDeleted(b) {
			c.p.w.left[b.Name] = b.Size
		}
		return err
	})
}

func (c *connection) Delete(ctx context.Context, b *bucket) error {
	return c.call(ctx, "delete", func(o *outside) error {
		o.remove(managed.GetExternalName(b))
		return nil
	})
}

// leave marks the resource of a row as left on purpose.
func (p *process) leave(ctx context.Context, b *bucket) error {
	return (&connection{p, b.Name}).call(ctx, "leave", func(o *outside) error {
		if name := managed.GetExternalName(b); o.is(name).exists {
			o.marked[name] = true
		}
		return nil
	})
}

func (c *connection) Disconnect(ctx context.Context) error {
	return c.call(ctx, "disconnect", func(*outside) error { return nil })
}
