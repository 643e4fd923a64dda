// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// reporter is what runs.
type reporter struct {
	Acks
	place
	ack, alive string // keys
	path       path
	// pruned reports whether the first prune has succeeded and its deletions are carried out, or there
	// will be none. It belongs to tell.
	pruned bool

	// renewals and begun belong to keepAlive. begun reports whether the first lease was told.
	renewals
	begun bool

	// look wakes tell, and rewrite makes it write the ack although it has not changed.
	look, rewrite chan struct{}

	mu sync.Mutex
	// revision is up to where the loop has attempted, of the store that is replaced when the channel is
	// closed, and rejected what the tables rejected of it. stopped is why the loop does no more.
	revision uint64
	rejected rejected
	of       <-chan struct{}
	stopped  error
	// problems are why the store does not take something, by what it is.
	problems map[string]error
}

// followLoop finds out up to which revision of the store the loop has attempted.
func (r *reporter) followLoop(ctx context.Context) {
	for ctx.Err() == nil {
		store, replaced := r.Source.current()
		if store == "" {
			select {
			case <-replaced:
			case <-ctx.Done():
			}
			continue
		}
		holding := r.Source.isHolding()
		now := r.path.next(ctx, r.DB)
		if now.changed == nil {
			return
		}
		now.changed.Add(replaced)
		// The revision is still that of the former store.
		if holding {
			_, _ = now.changed.Wait(ctx, 0)
			continue
		}
		// If the store was replaced meanwhile, the revision may be of either.
		if _, since := r.Source.current(); since != replaced {
			continue
		}
		// Not only up to the revision of its table that includes the store's: a row that another writer
		// has written meanwhile has a later one.
		_, err := r.Loop.WaitAll(ctx, reconciler.Attempted)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.mu.Lock()
			r.stopped = err
			r.mu.Unlock()
			notify(r.look)
			return
		}
		r.mu.Lock()
		r.of, r.revision, r.rejected = replaced, now.revision, now.rejected
		r.mu.Unlock()
		notify(r.look)
		_, _ = now.changed.Wait(ctx, 0)
	}
}

// tell writes the ack when it changes.
func (r *reporter) tell(ctx context.Context) {
	var written Ack
	for ctx.Err() == nil {
		select {
		case <-r.rewrite:
			written = Ack{}
		default:
		}
		now := r.now(ctx)
		var pause <-chan struct{} = r.look
		if now.Store != "" && r.isNews(now, written) {
			err := r.put(ctx, now)
			if err == nil {
				written = now
			}
			r.problem(ctx, r.ack, err)
			pause = nil
		}
		select {
		case <-pause:
		case <-time.After(gap):
		case <-ctx.Done():
		}
	}
}

// isNews reports whether an ack differs from the one that was written last. A revision that only progress has moved
// on is not news: the acks of other agents are what moves it, and each would lead to acks of all.
func (r *reporter) isNews(now, written Ack) bool {
	revised := written
	revised.Revision = now.Revision
	return !now.equal(revised) || now.Revision < written.Revision ||
		now.Revision > written.Revision && r.Source.lastEvent() > written.Revision
}

// now returns what there is to say. Of bad keys and rejected objects it counts those at the revision, or
// those of now, whichever is more: then nothing was wrong at the revision if nothing is counted.
func (r *reporter) now(ctx context.Context) Ack {
	store, replaced := r.Source.current()
	r.mu.Lock()
	a := Ack{Store: store}
	var attempted rejected
	if r.of == replaced {
		a.Revision, attempted = r.revision, r.rejected
	}
	stopped := r.stopped
	r.mu.Unlock()
	bad, n := r.Source.badSince(a.Revision)
	rejected := r.path.rejected(r.DB)
	if rejected.n < attempted.n {
		rejected = attempted
	}
	a.Bad, a.Held = n+rejected.n, r.Source.Holding()
	if _, since := r.Source.current(); since != replaced {
		// What is wrong may be what is wrong with another store.
		a.Revision = 0
	}
	figures := r.Loop.Figures()
	a.Failing, a.Blocked = figures.Failing, figures.Blocked
	for _, state := range figures.States {
		if state.State == string(inspect.StatePaused) {
			a.Paused = state.Count
		}
	}
	why := r.lookForPrune(ctx, &figures)
	a.Unpruned = why != ""

	var p problems
	p.add(stopped != nil, "the reconciler does not run: %s", stopped)
	p.lines = append(p.lines, r.path.missing(r.DB)...)
	p.add(a.Held > 0, "the store was replaced by an empty one: %d row(s) are held", a.Held)
	for _, err := range bad {
		p.add(true, "%s", err)
	}
	p.lines = append(p.lines, rejected.lines...)
	p.add(a.Unpruned, "%s", why)
	p.add(figures.Paused, "the reconciler is paused")
	if a.Failing > 0 || a.Blocked > 0 {
		p.lines = append(p.lines, r.objects(ctx)...)
	}
	p.add(a.Paused > 0, "%d object(s) are paused", a.Paused)
	a.Problems = p.first()
	return a
}

// put writes an ack, unless the store is another one.
func (r *reporter) put(ctx context.Context, a Ack) error {
	value, err := json.Marshal(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	done, err := clientv3.NewKV(r.client).Txn(ctx).
		If(clientv3.Compare(clientv3.Value(r.identity), "=", a.Store)).
		Then(clientv3.OpPut(r.ack, string(value))).Commit()
	switch {
	case err != nil:
		return err
	case !done.Succeeded:
		return errors.New("the store is not the one that the rows are from")
	}
	return nil
}

// problem keeps that something works or not, and tells health and the log if that is news. err is
// ignored when ctx has ended.
func (r *reporter) problem(ctx context.Context, what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, was := r.problems[what]
	if ctx.Err() != nil || err == nil && !was && r.problems != nil {
		return
	}
	if r.problems == nil {
		r.problems = map[string]error{}
	}
	if err == nil {
		delete(r.problems, what)
	} else {
		if r.problems[what] = err; !was {
			r.Log.Warn("The store is not told how far this agent is", "key", what, "error", err)
		}
	}
	if len(r.problems) == 0 {
		r.Health.OK("the store is told")
		return
	}
	var errs []error
	for _, key := range []string{r.ack, r.alive} {
		if err := r.problems[key]; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	r.Health.Degraded("The store is not told how far this agent is", errors.Join(errs...))
}

// notify wakes who waits for c.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
