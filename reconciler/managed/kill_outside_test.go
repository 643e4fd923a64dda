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

// outside is an outside system with delayed reads: new resources are not visible yet, and deleted ones
// are visible for some time. Writes take effect at once. The lock of the world guards its fields.
type outside struct {
	// chosen: it chooses the names of its resources; otherwise they are those of the rows.
	chosen  bool
	created int
	past    map[string][]version
	// lag returns the delay of the next read.
	lag func() time.Duration
	// stays reports whether a resource whose deletion was requested stays for now.
	stays func(id string) bool
	// faults: calls fail at random.
	faults bool
	rnd    *rand.Rand
	// twice lists resources that were created although the object had one.
	twice []string
	// takes is how long a deleted resource still exists.
	takes time.Duration
	// marked holds the names of resources that were marked as left in place.
	marked map[string]bool
	// late lists creates that began after their context had ended.
	late []string
}

// version is the state of a resource from a time on.
type version struct {
	since  time.Time
	owner  string
	size   int
	exists bool
}

// is returns the present state of a resource.
func (o *outside) is(id string) version { return o.at(id, time.Now()) }

// was returns the state of a resource that a read shows.
func (o *outside) was(id string) version { return o.at(id, time.Now().Add(-o.lag())) }

func (o *outside) at(id string, at time.Time) (v version) {
	for _, of := range o.past[id] {
		if !of.since.After(at) {
			v = of
		}
	}
	return v
}

// going reports whether a resource is being deleted and still exists.
func (o *outside) going(id string) bool {
	past := o.past[id]
	return len(past) > 0 && past[len(past)-1].since.After(time.Now())
}

func (o *outside) becomes(id string, v version) {
	v.since = time.Now()
	o.past[id] = append(o.past[id], v)
}

// owned returns the names of the existing resources of an object.
func (o *outside) owned(owner string) (ids []string) {
	for id := range o.past {
		if v := o.is(id); v.exists && v.owner == owner {
			ids = append(ids, id)
		}
	}
	return ids
}

// create creates a resource, under the given name unless the outside system chooses one. It does
// nothing if that name exists.
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

// failing returns the error of the next call, before or after it takes effect, and whether the call is
// slow.
func (o *outside) failing() (before, after error, slow bool) {
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

// connection is the client of one pass of one process.
type connection struct {
	p   *process
	key string
}

var (
	_ managed.ExternalClient[*bucket] = (*connection)(nil)
	_ managed.ExternalDisconnecter    = (*connection)(nil)
)

// Connect returns the client of a pass.
func (p *process) Connect(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
	c := &connection{p, b.Name}
	return c, c.call(ctx, "connect", func(*outside) error { return nil })
}

// call makes a call to the outside system. A process that is dead before it has no effect; one that is
// dead after it gets no answer.
func (c *connection) call(ctx context.Context, op string, do func(o *outside) error) error {
	if err := c.p.reach("before "+op, c.key); err != nil {
		return err
	}
	c.p.meanwhile(c.key)
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
	if err := c.p.alive(func(w *world) error { return do(w.outside) }); err != nil {
		return err
	}
	if err := c.p.reach("after "+op, c.key); err != nil {
		return err
	}
	// A caller whose context has ended gets no answer.
	return errors.Join(after, ctx.Err())
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

// noteLateCreate records a create that begins after its context has ended. With several workers another
// one may end the process just before, so it records nothing.
func (p *process) noteLateCreate(ctx context.Context, name string) {
	if p.w.workers == 1 && ctx.Err() != nil {
		p.w.change(func() { p.w.outside.late = append(p.w.outside.late, name) })
	}
}

func (c *connection) Create(ctx context.Context, b *bucket) error {
	// A process that loses its table must know before the create what it is about to create.
	if c.p.w.filed() {
		if err := c.p.file("file-pending", b); err != nil {
			return err
		}
	}
	c.p.noteLateCreate(ctx, b.Name)
	var id string
	if err := c.call(ctx, "create", func(o *outside) error {
		id = o.create(b.Name, managed.GetExternalName(b), b.Size)
		return nil
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

// leave marks the resource of a row as left in place.
func (p *process) leave(ctx context.Context, b *bucket) error {
	return (&connection{p, b.Name}).call(ctx, "leave", func(o *outside) error {
		if name := managed.GetExternalName(b); o.is(name).exists {
			o.marked[name] = true
		}
		return nil
	})
}

func (c *connection) Disconnect(ctx context.Context) error {
	err := c.call(ctx, "disconnect", func(*outside) error { return nil })
	if c.p.w.breaks {
		panic("double close")
	}
	return err
}
