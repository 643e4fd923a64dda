// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/managed"
)

var (
	errNotFound = errors.New("404")
	errRefused  = errors.New("quota")
	errDown     = errors.New("503")
	errGoing    = errors.New("409")
	errKilled   = errors.New("killed")
)

// stored is a resource of the outside system.
type stored struct {
	owner string
	size  int
	// left: it is marked as left in place. gone is when its deletion ends, zero if it was not deleted.
	left bool
	gone time.Time
}

// outside is the state of the outside system. Writes take effect at once. set guards all fields.
type outside struct {
	mu      sync.Mutex
	buckets map[string]stored
	created int
	// chosen: it chooses the name of each resource, otherwise only of one that has none.
	chosen bool
	// blind: reads show nothing. lag returns the age of the state that the next read shows; nil means zero.
	blind bool
	lag   func() time.Duration
	past  []past
	// stays reports whether a resource stays although its deletion was requested; nil means no. takes is how
	// long a deleted one still exists.
	stays func() bool
	takes time.Duration
	// twice lists resources that were created although the object had one.
	twice []string
}

// past is the state from a time on.
type past struct {
	since   time.Time
	buckets map[string]stored
}

// set changes or reads the outside system.
func (o *outside) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	if o.lag != nil {
		o.past = append(o.past, past{time.Now(), maps.Clone(o.buckets)})
	}
}

// existing returns the resources that exist at a time.
func existing(buckets map[string]stored, at time.Time) map[string]stored {
	there := maps.Clone(buckets)
	maps.DeleteFunc(there, func(_ string, s stored) bool { return !s.gone.IsZero() && !s.gone.After(at) })
	return there
}

// shown returns the resources that a read shows.
func (o *outside) shown() map[string]stored {
	switch {
	case o.blind:
		return nil
	case o.lag == nil:
		return existing(o.buckets, time.Now())
	}
	at := time.Now().Add(-o.lag())
	for _, p := range slices.Backward(o.past) {
		if !p.since.After(at) {
			return existing(p.buckets, at)
		}
	}
	return nil
}

// owned returns the resources of an object that exist now.
func (o *outside) owned(owner string) map[string]stored {
	all := existing(o.buckets, time.Now())
	maps.DeleteFunc(all, func(_ string, s stored) bool { return s.owner != owner })
	return all
}

// holds returns the sizes of the resources of an object.
func (o *outside) holds(owner string) (sizes []int) {
	o.set(func() {
		for _, s := range o.owned(owner) {
			sizes = append(sizes, s.size)
		}
	})
	return sizes
}

// exists returns the name of a resource of an object, empty if there is none.
func (o *outside) exists(owner string) (found string) {
	o.set(func() {
		for found = range o.owned(owner) {
			break
		}
	})
	return found
}

// hook is called before or after the effect of a call.
type hook func(ctx context.Context, b *bucket) error

// cloud is the outside system as one process sees it.
type cloud struct {
	*outside
	// dead: the process was killed, and its calls have no effect any more.
	dead bool
	// lateRegion: Observe fills in a region. silent: a Create that returns an error sets nothing. inPlace: clones are
	// deep, and Observe sets what it sees in what they have copied, and no field of the struct.
	lateRegion, silent, inPlace bool
	// faults run before an operation, effects after it.
	faults, effects map[string]hook
	calls           map[string][]string
}

func newCloud(o *outside) *cloud {
	return &cloud{outside: o, calls: map[string][]string{}, faults: map[string]hook{}, effects: map[string]hook{}}
}

// alive does something unless the process is dead.
func (c *cloud) alive(do func() error) (err error) {
	c.set(func() {
		if err = errKilled; !c.dead {
			err = do()
		}
	})
	return err
}

// call makes a call, with its fault and its effect.
func (c *cloud) call(ctx context.Context, op string, b *bucket, work func() error) error {
	var fault, effect hook
	c.set(func() {
		c.calls[b.Name] = append(c.calls[b.Name], op)
		fault = c.faults[op]
	})
	if fault != nil {
		if err := fault(ctx, b); err != nil {
			return err
		}
	}
	if err := c.alive(work); err != nil {
		return err
	}
	if c.set(func() { effect = c.effects[op] }); effect == nil {
		return nil
	}
	return effect(ctx, b)
}

func (c *cloud) Connect(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
	return c, c.call(ctx, "connect", b, func() error { return nil })
}

func (c *cloud) Observe(ctx context.Context, b *bucket) (seen managed.ExternalObservation, err error) {
	name := managed.GetExternalName(b)
	err = c.call(ctx, "observe", b, func() error {
		s, exists := c.shown()[name]
		if !exists {
			return nil
		}
		seen = managed.ExternalObservation{
			ResourceExists: true, ResourceUpToDate: s.size == b.Size && !s.left,
			Diff:              fmt.Sprintf("size %d, want %d", s.size, b.Size),
			ConnectionDetails: managed.ConnectionDetails{"address": []byte(name)},
		}
		if c.inPlace {
			b.see(s.size)
		} else {
			b.Seen = s.size
		}
		if c.lateRegion && b.Region == "" {
			b.Region, seen.ResourceLateInitialized = "north", true
		}
		return nil
	})
	return seen, err
}

func (c *cloud) Create(ctx context.Context, b *bucket) error {
	was := maps.Clone(b.Annotations)
	err := c.call(ctx, "create", b, func() error {
		c.created++
		name := managed.GetExternalName(b)
		if name == "" || c.chosen {
			name = fmt.Sprintf("%s-%d", b.Name, c.created)
		}
		if owned := c.owned(b.Name); owned[name].owner == "" {
			if len(owned) > 0 {
				c.twice = append(c.twice, fmt.Sprintf("%s beside %v", name, owned))
			}
			c.buckets[name] = stored{owner: b.Name, size: b.Size}
		}
		managed.SetExternalName(b, name)
		noteZone(b, name)
		b.Seen = -1 // the reconciler must drop this
		return nil
	})
	if err != nil && c.silent {
		b.Annotations = was
	}
	return err
}

func (c *cloud) Update(ctx context.Context, b *bucket) error {
	return c.call(ctx, "update", b, func() error {
		s, exists := existing(c.buckets, time.Now())[managed.GetExternalName(b)]
		switch {
		case !exists:
			return errNotFound
		case !s.gone.IsZero():
			return errGoing
		}
		s.size, s.left = b.Size, false
		c.buckets[managed.GetExternalName(b)] = s
		return nil
	})
}

func (c *cloud) Delete(ctx context.Context, b *bucket) error {
	return c.call(ctx, "delete", b, func() error {
		s, exists := c.buckets[managed.GetExternalName(b)]
		if exists && s.gone.IsZero() && (c.stays == nil || !c.stays()) {
			s.left, s.gone = false, time.Now().Add(c.takes)
			c.buckets[managed.GetExternalName(b)] = s
		}
		return nil
	})
}

// leave is a leave hook: it marks the resource.
func (c *cloud) leave(ctx context.Context, b *bucket) error {
	return c.call(ctx, "leave", b, func() error {
		if s, exists := c.buckets[managed.GetExternalName(b)]; exists {
			s.left = true
			c.buckets[managed.GetExternalName(b)] = s
		}
		return nil
	})
}

// List lists the resources that are not marked.
func (c *cloud) List(_ context.Context, _ statedb.ReadTxn, yield func(*bucket) bool) error {
	var rows []*bucket
	err := c.alive(func() error {
		for id, s := range c.shown() {
			if !s.left {
				b := named(s.owner)
				managed.SetExternalName(b, id)
				b.Finalizers = []string{managed.FinalizerName}
				rows = append(rows, b)
			}
		}
		return nil
	})
	for _, b := range rows {
		if !yield(b) {
			break
		}
	}
	return err
}

// fail makes an operation fail before it has an effect; a nil error lets it work again.
func (c *cloud) fail(op string, err error) {
	c.before(op, func(context.Context, *bucket) error { return err })
}

func (c *cloud) before(op string, f hook) { c.set(func() { c.faults[op] = f }) }
func (c *cloud) then(op string, f hook)   { c.set(func() { c.effects[op] = f }) }

// take returns the calls for an object since the last take.
func (c *cloud) take(name string) (calls []string) {
	c.set(func() {
		calls = c.calls[name]
		delete(c.calls, name)
	})
	return calls
}

// session is a client with its own connection.
type session struct {
	*cloud
	disconnect func(ctx context.Context) error
}

func (s session) Disconnect(ctx context.Context) error { return s.disconnect(ctx) }

const zone = "example.com/zone"

// noteZone sets the annotation that a create sets besides the external name.
func noteZone(b *bucket, name string) { b.SetAnnotation(zone, "of "+name) }
