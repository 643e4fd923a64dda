// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/reconciler/source"
)

// Source fills a table from a prefix of etcd. Make one with [New]. Its methods are safe for concurrent
// use.
type Source[Obj any] struct {
	cfg     Config[Obj]
	running atomic.Bool

	// The following belong to the goroutine of Run.

	// wanted has the last object of each key that the table should have a row for.
	wanted *wanted[Obj]
	// stray has objects, by their primary keys, whose rows the table may have although no key wants them:
	// those of calls of the sink that were not complete.
	stray map[string]Obj
	// held has the keys of rows that the table keeps and the store has not.
	held map[string]struct{}
	// revision is that of the store up to which everything was applied; zero before the first list.
	revision int64
	// page is the size of the next page of a list; zero before the first.
	page int
	// relist is why the next thing to do is a list; empty if it is not. nextList is when one is due.
	relist   string
	nextList time.Time
	// moved is the revision of the last event or list, quiet what it was at the last comparison, and
	// heldAt what it was when the hold began.
	moved, quiet, heldAt int64

	mu sync.Mutex
	// newest is the revision of the last event or list, as moved.
	newest uint64
	// store is the identity of the store that is followed; empty before the first list, and while rows
	// of another store are replaced. The revisions of the sink belong to it unless holds is true. changed
	// is closed when it changes.
	store   string
	changed chan struct{}
	// bad has the keys, without the prefix, with values that do not decode, and those whose row is that of
	// another key. Only the goroutine of Run changes it. former is what was bad before a key was last
	// mended.
	bad    map[string]error
	former former
	// holding is the number of rows in held, or of all rows if they are from before this source. holds
	// reports whether the table has not been made that of a list since the rows were held: its revision is
	// that of the former store.
	holding int
	holds   bool
	health  condition
}

// New makes a source. The error joins everything that is wrong with the configuration.
func New[Obj any](cfg Config[Obj]) (*Source[Obj], error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Source[Obj]{
		cfg: cfg, wanted: newWanted(cfg.Sink.KeyOf, 0), bad: map[string]error{}, stray: map[string]Obj{}, relist: "nothing was listed yet",
		changed: make(chan struct{}), health: condition{health: cfg.Health},
	}, nil
}

// State returns how far the table has followed the store: source.State.Input is the revision of the
// store that the table includes.
func (s *Source[Obj]) State() source.State { return s.cfg.Sink.State() }

// Store returns the identity of the store that the revision in State belongs to. It is empty before the
// first list, while the rows of a former store are replaced, and from when they are held until the next
// list of which a key decodes.
func (s *Source[Obj]) Store() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds {
		return ""
	}
	return s.store
}

// Bad returns the errors of up to limit bad keys, by key, and the number of all bad keys: those whose value
// does not decode, and those that decode to the row of a key that was written later. An error begins with
// the whole key. The cost is proportional to the number.
func (s *Source[Obj]) Bad(limit int) ([]error, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.someBad(limit), len(s.bad)
}

// former is what was bad until a revision of the store, at which a key was mended.
type former struct {
	errs  []error // some of them
	n     int
	until uint64
}

// badSince returns some errors of bad keys, and their number. If a key was bad at a revision of the store, or
// has been since, the number is not zero. Acks uses it.
func (s *Source[Obj]) badSince(revision uint64) ([]error, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision < s.former.until && s.former.n > len(s.bad) {
		return s.former.errs, s.former.n
	}
	return s.someBad(maxNamed), len(s.bad)
}

// noteFormer keeps what is bad, until a revision. The caller holds mu.
func (s *Source[Obj]) noteFormer(until int64) {
	s.former = former{errs: s.someBad(maxNamed), n: len(s.bad), until: uint64(until)}
}

// someBad returns up to limit errors of bad keys. The caller holds mu.
func (s *Source[Obj]) someBad(limit int) []error {
	var first []string
	for key := range s.bad {
		at, _ := slices.BinarySearch(first, key)
		if at < limit {
			first = slices.Insert(first, at, key)
			first = first[:min(len(first), limit)]
		}
	}
	errs := make([]error, len(first))
	for i, key := range first {
		errs[i] = fmt.Errorf("%q: %w", s.cfg.Prefix+key, s.bad[key])
	}
	return errs
}

// Holding returns the number of rows that the table keeps although the store, which was replaced by an
// empty one, has not their keys.
func (s *Source[Obj]) Holding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holding
}

// isHolding reports whether the table does not include a list of the store. Acks uses it.
func (s *Source[Obj]) isHolding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

// lastEvent returns the revision of the last event of the prefix, or of the last list. Acks uses it.
func (s *Source[Obj]) lastEvent() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// Run follows the store until ctx ends, and then returns nil. When etcd is away it tries again for
// as long as it takes: what is wrong is in State and in the health of the sink. Run may be called
// again after it has returned. It returns an error, at once, if it runs already.
func (s *Source[Obj]) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("the source runs already")
	}
	defer s.running.Store(false)
	waits := backoff.Exponential{
		Min: s.cfg.Backoff, Max: 10 * s.cfg.Backoff,
		Jitter: 1, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	for failures := 1; ; failures++ {
		connected, err := s.follow(ctx)
		if ctx.Err() != nil {
			s.cfg.Sink.Disconnected(errors.New("the source has stopped"))
			return nil
		}
		if connected {
			failures = 1
		}
		err = withCause(ctx, s.cfg.Client, err)
		s.cfg.Sink.Disconnected(err)
		wait := waits.Delay(failures)
		s.cfg.Log.Warn("The store is not followed", "prefix", s.cfg.Prefix, "error", err, "wait", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// ready waits until there is a connection, for a short time: Run has waited at random before, and waits
// again.
func (s *Source[Obj]) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Backoff)
	defer cancel()
	conn := s.cfg.Client.ActiveConnection()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("there is no connection to etcd, its state is %s", state)
		}
	}
	return nil
}

// follow connects and applies what changes, until something ends that. connected reports whether the
// store was followed for a while.
func (s *Source[Obj]) follow(ctx context.Context) (connected bool, err error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	w, err := s.connect(ctx)
	if err != nil {
		return false, err
	}
	defer w.close()
	s.cfg.Sink.Connected()
	check := time.NewTimer(1 + rand.N(s.cfg.Check))
	defer check.Stop()
	var last progress
	for {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case n, ok := <-w.news:
			if !ok {
				if errors.Is(w.err, errCompacted) {
					s.relist = w.err.Error()
				}
				return true, fmt.Errorf("the watch has ended: %w", w.err)
			}
			if err := s.apply(ctx, w.take(n, maxEvents)); err != nil {
				return true, err
			}
		case <-check.C:
			if err := s.check(ctx, w, &last); err != nil {
				return true, err
			}
			// After it: the watch has this time to answer, however long the comparison took.
			check.Reset(s.cfg.Check)
		}
	}
}

// connect lists the prefix, if that is needed, and opens a watch in the store that the rows are from.
func (s *Source[Obj]) connect(ctx context.Context) (*watch, error) {
	for range 3 {
		if s.relist != "" {
			if err := s.list(ctx); err != nil {
				return nil, err
			}
		}
		w, err := openWatch(ctx, s.cfg.Client, s.cfg.Prefix, s.revision+1, s.cfg.Check)
		switch {
		case errors.Is(err, errCompacted):
			s.relist = err.Error()
			continue
		case err != nil:
			return nil, err
		}
		// The comparison comes after the watch: a store that is replaced later ends the connection.
		if _, err := s.compare(ctx); err != nil {
			w.close()
			return nil, err
		}
		if s.relist == "" {
			return w, nil
		}
		w.close()
	}
	return nil, fmt.Errorf("the store changes all the time: %s", s.relist)
}

// setStore publishes the identity of the store that the rows are from.
func (s *Source[Obj]) setStore(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != identity {
		s.store = identity
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// current returns the identity of the store that the rows are from, and a channel that is closed
// when the rows become those of another store, or of the same one that went back. Acks uses it.
func (s *Source[Obj]) current() (store string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store, s.changed
}
