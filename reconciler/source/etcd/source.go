// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/problems"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/reconciler/source"
)

// Source fills a table from a prefix of etcd. Make one with [New]. Its methods are safe for concurrent
// use.
//
// It keeps the last object of each key: 210 to 300 bytes for a key of 25, and the object, which the table has, too, unless
// the sink merges. A list takes the memory of its keys and values.
type Source[Obj any] struct {
	cfg    Config[Obj]
	server server
	runs   atomic.Bool // Run does
	// running is the function of the program that Run calls.
	running guard.Running
	// asked is sent when a call of Loaded begins.
	asked signal.Signal

	// The following belong to the goroutine of Run.

	// keys has what each key wants.
	keys *keys[Obj]
	// following is the identity of the store that is read, and revision that up to which its watch was applied:
	// zero before the first list. seen is the header of an answer of it.
	following string
	revision  int64
	seen      etcdserverpb.ResponseHeader
	// complete reports whether the table includes everything up to revision. If not, a list is going on, or
	// due, or rows are held, and the sink stays at the revision included.
	complete bool
	included uint64
	// list is the list that is being read; nil if there is none.
	list *list
	// page is the size of the first page of the next list; zero before the first. While there is a list, it
	// belongs to that.
	page int
	// relist is why the watch cannot go on where it was, and a list is needed; empty if it can. nextList is
	// when one is due.
	relist   string
	nextList time.Time
	// moved is the revision of the last event or list, and lastChange that of the last change of the prefix that was
	// read in the store that is followed. refused is what lastChange was when the sink refused a list of that store;
	// -1 if it refused none.
	moved, lastChange, refused int64
	// named reports whether the source has the keys of the rows that are held: without them they are from before
	// this source. It is set when a hold begins.
	named bool

	mu sync.Mutex
	// newest is the revision of the last event or list, as moved.
	newest uint64
	// store is the identity of the store that is followed; empty before the first list, and while rows
	// of another store are replaced. The revisions of the sink belong to it unless holds is true. changed
	// is closed when it changes.
	store   string
	changed chan struct{}
	// bad has the keys, without the prefix, with values that do not decode, and those whose row another key
	// has. Only the goroutine of Run changes it. former is what was bad before a key was last
	// mended.
	bad    problems.Set
	former former
	// holding is the number of rows that the table keeps and the store has not. holds
	// reports whether the table has not been made that of a list since the rows were held: its revision is
	// that of the former store.
	holding int
	holds   bool
	// listErr is why the last list failed; nil if it did not.
	listErr error
	// told is what health was told last; empty if it was told nothing.
	told string
	// loads are the calls of Loaded that wait.
	loads []*load
}

// New makes a source. The error joins everything that is wrong with the configuration.
func New[Obj any](cfg Config[Obj]) (*Source[Obj], error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Source[Obj]{
		cfg: cfg, asked: signal.New(), server: connection{client: cfg.Client, prefix: cfg.Prefix, check: cfg.Check, backoff: cfg.Backoff},
		keys: newKeys[Obj](cfg.Prefix), bad: problems.New(), relist: "nothing was listed yet",
		included: cfg.Sink.State().Input, changed: make(chan struct{}),
	}
	cfg.Sink.SetLoaded(s.Loaded)
	return s, nil
}

// State returns how far the table has followed the store: source.State.Input is the revision of the
// store that the table includes.
func (s *Source[Obj]) State() source.State {
	state := s.cfg.Sink.State()
	if long := s.running.Long(); long != "" {
		state.Running = long
	}
	return state
}

// Store returns the identity of the store that the revision in State belongs to. It is empty before the
// first list, while the rows of a former store are replaced, and while they are held.
func (s *Source[Obj]) Store() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds {
		return ""
	}
	return s.store
}

// Bad returns the errors of up to limit bad keys, that which is bad for longest first, and the number of all bad
// keys: those whose value does not decode, and those that decode to a row that another key has. An error begins with
// the whole key.
func (s *Source[Obj]) Bad(limit int) ([]error, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.someBad(limit), s.bad.Len()
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
	if revision < s.former.until && s.former.n > s.bad.Len() {
		return s.former.errs, s.former.n
	}
	return s.someBad(maxNamed), s.bad.Len()
}

// noteFormer keeps what is bad, until a revision. The caller holds mu.
func (s *Source[Obj]) noteFormer(until int64) {
	s.former = former{errs: s.someBad(maxNamed), n: s.bad.Len(), until: uint64(until)}
}

// someBad returns up to limit errors of bad keys. The caller holds mu.
func (s *Source[Obj]) someBad(limit int) []error {
	first := s.bad.First(limit)
	errs := make([]error, len(first))
	for i, p := range first {
		errs[i] = p.Err
	}
	return errs
}

// Holding returns the number of rows that the table keeps although the store, which was replaced, does not have
// their keys, or has values there that do not decode.
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
// again after it has returned. It returns an error, at once, if it runs already, or if a function of the program
// calls runtime.Goexit.
func (s *Source[Obj]) Run(ctx context.Context) error {
	if !s.runs.CompareAndSwap(false, true) {
		return errors.New("the source runs already")
	}
	defer s.runs.Store(false)
	waits := backoff.Exponential{
		Min: s.cfg.Backoff, Max: 10 * s.cfg.Backoff,
		Jitter: 1, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	for failures := 1; ; failures++ {
		var connected bool
		var err error
		if !guard.Returned(func() { connected, err = s.follow(ctx) }) {
			// What was read of the store may not be applied. All values are decoded again.
			s.relist = guard.ErrGoexit.Error()
			s.keys.decodeAgain()
			s.cfg.Sink.Disconnected(guard.ErrGoexit)
			return guard.ErrGoexit
		}
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

// follow connects and applies what changes, until something ends that. connected reports whether the
// store was followed for a while.
func (s *Source[Obj]) follow(ctx context.Context) (connected bool, err error) {
	if err := s.server.ready(ctx); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { s.keepReporting(ctx) })
	// Deferred, since a function of the program may end the goroutine.
	defer func() {
		cancel()
		if s.list != nil {
			<-s.list.read
			s.list = nil
		}
		reports.Wait()
	}()
	w, err := s.connect(ctx)
	if err == nil {
		defer w.close()
		err = s.receive(ctx, w)
	}
	// Run has told that it was not before, and the table has followed since if it is.
	return s.cfg.Sink.State().Connected, err
}

// receive applies what a watch receives, until something ends that.
func (s *Source[Obj]) receive(ctx context.Context, w *watch) error {
	check, again := time.NewTimer(1+rand.N(s.cfg.Check)), time.NewTimer(askAgain)
	defer check.Stop()
	defer again.Stop()
	s.forgetLoads()
	last := int64(-1)
	for {
		s.answerLoads()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n, ok := <-w.news:
			if !ok {
				if errors.Is(w.err, errCompacted) {
					s.relist = w.err.Error()
				}
				return fmt.Errorf("the watch has ended: %w", w.err)
			}
			if err := s.apply(ctx, w.take(n, maxEvents)); err != nil {
				return err
			}
		case <-s.list.done():
			if err := s.endList(ctx); err != nil {
				return err
			}
		case <-check.C:
			if err := s.check(ctx, w, &last); err != nil {
				return err
			}
			// After it: the watch has this time to answer, however long the comparison took.
			check.Reset(s.cfg.Check)
		case <-s.asked:
			if err := s.askForLoads(ctx); err != nil {
				return err
			}
			w.requestProgress()
			again.Reset(askAgain)
		case <-again.C:
			if s.isLoading() {
				w.requestProgress()
				again.Reset(askAgain)
			}
		}
	}
}

// connect opens a watch that goes on where the last one has ended. If that cannot be, the watch begins now, and
// a list of the prefix with it.
func (s *Source[Obj]) connect(ctx context.Context) (*watch, error) {
	if s.relist == "" {
		w, err := s.server.watch(ctx, s.revision+1)
		if err == nil {
			// The comparison comes after the watch: a store that is replaced later ends the connection.
			if err = s.compare(ctx); err == nil {
				err = w.isOf(&s.seen)
			}
			if err == nil {
				s.cfg.Sink.Connected()
				return w, nil
			}
			w.close()
		} else if errors.Is(err, errCompacted) {
			s.relist = err.Error()
		}
		if s.relist == "" {
			return nil, err
		}
	}
	store, header, err := s.identify(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	w, err := s.server.watch(ctx, 0)
	if err == nil && w.at < header.Revision {
		// The member is behind.
		w.close()
		w, err = s.server.watch(ctx, header.Revision+1)
	}
	if err != nil {
		return nil, err
	}
	if err := w.isOf(header); err != nil {
		w.close()
		return nil, err
	}
	known, _ := s.current()
	same := known == store && s.differs(store, header) == "" && !s.isHolding()
	if !same {
		s.setStore("")
		s.keys.forgetStore()
		s.lastChange, s.refused = 0, -1
	}
	s.following, s.seen, s.revision, s.complete = store, *header, w.at, false
	s.startList(ctx, s.relist, same, -1)
	return w, nil
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
