// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// bucket is a row: a resource of the cloud.
type bucket struct {
	managed.Meta
	Size   int
	Region string // filled in by the cloud if empty
	Seen   int    // the size that the cloud has
	Status reconciler.Status
	Other  reconciler.Status
}

var _ managed.Resource = (*bucket)(nil)

func (b *bucket) Clone() *bucket                        { c := *b; return &c }
func (b *bucket) SetStatus(s reconciler.Status) *bucket { b.Status = s; return b }
func (b *bucket) GetStatus() reconciler.Status          { return b.Status }
func (b *bucket) TableHeader() []string                 { return []string{"Name", "Status"} }
func (b *bucket) TableRow() []string                    { return []string{b.Name, b.Status.String()} }

var byName = statedb.Index[*bucket, string]{
	Name:       "name",
	FromObject: func(b *bucket) index.KeySet { return index.NewKeySet(index.String(b.Name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// stored is a bucket in the cloud.
type stored struct {
	owner string
	size  int
}

// cloud is the outside system. It chooses the names of its buckets.
type cloud struct {
	mu      sync.Mutex
	buckets map[string]*stored
	created int
	// blind: buckets are not visible. sticky: deleted buckets stay. lateRegion: Observe fills in a
	// region.
	blind, sticky, lateRegion bool
	// faults run before an operation, effects after it.
	faults, effects map[string]func(ctx context.Context, b *bucket) error
	calls           map[string][]string
}

func newCloud() *cloud {
	return &cloud{
		buckets: map[string]*stored{}, calls: map[string][]string{},
		faults:  map[string]func(context.Context, *bucket) error{},
		effects: map[string]func(context.Context, *bucket) error{},
	}
}

var (
	_ managed.ExternalClient[*bucket]    = (*cloud)(nil)
	_ managed.ExternalConnecter[*bucket] = (*cloud)(nil)
)

// call records a call, and returns the error of the fault that is set for it.
func (c *cloud) call(ctx context.Context, op string, b *bucket) error {
	c.mu.Lock()
	c.calls[b.Name] = append(c.calls[b.Name], op)
	fault := c.faults[op]
	c.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(ctx, b)
}

func (c *cloud) after(ctx context.Context, op string, b *bucket) error {
	c.mu.Lock()
	effect := c.effects[op]
	c.mu.Unlock()
	if effect == nil {
		return nil
	}
	return effect(ctx, b)
}

func (c *cloud) Connect(ctx context.Context, b *bucket) (managed.ExternalClient[*bucket], error) {
	if err := c.call(ctx, "connect", b); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cloud) Observe(ctx context.Context, b *bucket) (seen managed.ExternalObservation, err error) {
	if err := c.call(ctx, "observe", b); err != nil {
		return seen, err
	}
	c.mu.Lock()
	s, exists := c.buckets[managed.GetExternalName(b)]
	if exists = exists && !c.blind; exists {
		seen.ResourceExists = true
		seen.ResourceUpToDate = s.size == b.Size
		seen.Diff = fmt.Sprintf("size %d, want %d", s.size, b.Size)
		seen.ConnectionDetails = managed.ConnectionDetails{"address": []byte(managed.GetExternalName(b))}
		b.Seen = s.size
		if c.lateRegion && b.Region == "" {
			b.Region, seen.ResourceLateInitialized = "north", true
		}
	}
	c.mu.Unlock()
	return seen, c.after(ctx, "observe", b)
}

func (c *cloud) Create(ctx context.Context, b *bucket) error {
	if err := c.call(ctx, "create", b); err != nil {
		return err
	}
	c.mu.Lock()
	c.created++
	name := managed.GetExternalName(b)
	if name == "" {
		name = fmt.Sprintf("%s-%d", b.Name, c.created)
		managed.SetExternalName(b, name)
		noteZone(b, name)
	}
	c.buckets[name] = &stored{b.Name, b.Size}
	c.mu.Unlock()
	b.Seen = -1 // the reconciler must drop this
	return c.after(ctx, "create", b)
}

func (c *cloud) Update(ctx context.Context, b *bucket) error {
	if err := c.call(ctx, "update", b); err != nil {
		return err
	}
	c.mu.Lock()
	c.buckets[managed.GetExternalName(b)].size = b.Size
	c.mu.Unlock()
	return c.after(ctx, "update", b)
}

func (c *cloud) Delete(ctx context.Context, b *bucket) error {
	if err := c.call(ctx, "delete", b); err != nil {
		return err
	}
	c.mu.Lock()
	if !c.sticky {
		delete(c.buckets, managed.GetExternalName(b))
	}
	c.mu.Unlock()
	return c.after(ctx, "delete", b)
}

// set changes the behaviour or the buckets of the cloud.
func (c *cloud) set(f func(c *cloud)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// fail makes an operation fail before it has an effect; a nil error lets it work again.
func (c *cloud) fail(op string, err error) {
	c.before(op, func(context.Context, *bucket) error { return err })
}

func (c *cloud) before(op string, f func(context.Context, *bucket) error) {
	c.set(func(c *cloud) { c.faults[op] = f })
}

func (c *cloud) then(op string, f func(context.Context, *bucket) error) {
	c.set(func(c *cloud) { c.effects[op] = f })
}

// take returns the calls for an object since the last take.
func (c *cloud) take(name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls[name]
	delete(c.calls, name)
	return calls
}

// holds returns the sizes of the buckets of an object.
func (c *cloud) holds(name string) (sizes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.buckets {
		if s.owner == name {
			sizes = append(sizes, s.size)
		}
	}
	return sizes
}
