// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// reporter is what runs.
type reporter struct {
	Acks
	place
	ack, alive string // keys
	path       inputs.Path
	// pruned reports whether the first prune has succeeded and its deletions are carried out, or there
	// will be none. It belongs to tell.
	pruned bool

	// renewals belongs to keepAlive.
	renewals
	// claimed is the lease with which keepAlive has written the keys last; zero before the first time, and -1 if
	// it does not know.
	claimed atomic.Int64

	// look wakes tell, and rewrite makes it write the ack although it has not changed.
	look, rewrite signal.Signal

	mu sync.Mutex
	// reached is how far the loop is, by milestone.
	reached [2]reached
	// problems are why the store does not take something, or is not told more, by what it is; nil if all is
	// well. told is what health was told of them.
	problems map[string]error
	told     string
}

// reached is what a loop has reached of a store, which is replaced when the channel of is closed.
type reached struct {
	inputs.Included
	of <-chan struct{}
}

// follow finds out up to which revision of the store the loop has reached a milestone. Each milestone has a
// goroutine of its own: what fails keeps the wait for Applied from its end.
func (r *reporter) follow(ctx context.Context, m reconciler.Milestone) {
	for ctx.Err() == nil {
		store, replaced := r.Source.current()
		holding := r.Source.isHolding()
		now := reached{r.path.Next(ctx), replaced}
		if now.Changed == nil {
			return
		}
		now.Changed.Add(replaced)
		// Then the revision is, or may be, still that of the former store.
		if _, since := r.Source.current(); store == "" || holding || since != replaced {
			r.wait(ctx, now.Changed)
			continue
		}
		// Before the wait: what is mended meanwhile may be written later than what is waited for.
		_, bad := r.Source.badSince(now.Revision)
		unset, err := r.waitForLoop(ctx, m)
		if err != nil {
			r.problem(ctx, aboutLoop, fmt.Errorf("the reconciler does not run: %w", err))
			r.look.Send()
			return
		}
		now.Rejected.N, now.Rejected.Errs = now.Rejected.N+unset.N, append(now.Rejected.Errs, unset.Errs...)
		if m == reconciler.Attempted || bad+now.Rejected.N == 0 {
			r.mu.Lock()
			r.reached[m] = now
			r.mu.Unlock()
		}
		// Most changes reach both milestones at once. That is one ack.
		if m == reconciler.Applied {
			r.look.Send()
		}
		r.wait(ctx, now.Changed)
	}
}

// waitForLoop waits until everything that is in the table of the loop has reached a milestone: not only what is there
// at the revision that includes the store's, since a row that another writer has written meanwhile has a later one.
// It returns the rows without a status, which no wait waits for, as of before the wait: the loop met no other since.
func (r *reporter) waitForLoop(ctx context.Context, m reconciler.Milestone) (unset inputs.Rejected, err error) {
	for {
		before := r.Loop.Figures().Unset
		unset = unsetRows(ctx, r.Loop)
		if _, err := r.Loop.WaitAll(ctx, m); err != nil || r.Loop.Figures().Unset == before {
			return unset, err
		}
	}
}

// wait waits until a channel is closed, but looks again after a while: a row that gets its status from another
// writer, or a key that is decoded at last to the row that there is, changes no input.
func (r *reporter) wait(ctx context.Context, changed *statedb.WatchSet) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	_, _ = changed.Wait(ctx, 0)
}

// tell writes the ack when it changes.
func (r *reporter) tell(ctx context.Context) {
	var written Ack
	for ctx.Err() == nil {
		now := r.now(ctx)
		pause := r.look
		if now.Store != "" && r.claimed.Load() > 0 && r.isNews(now, written) {
			err := r.put(ctx, now)
			if written = now; err != nil {
				// Without an answer it may be there, or not.
				written = Ack{}
			}
			r.problem(ctx, r.ack, err)
			r.Told(now, err)
			pause = nil
		}
		select {
		case <-r.rewrite:
			written = Ack{}
		case <-pause:
		case <-time.After(gap):
		case <-ctx.Done():
		}
	}
}

// isNews reports whether an ack differs from the one that was written last. A revision that only progress has moved
// on is not news: the acks of other agents are what moves it, and each would lead to acks of all.
func (r *reporter) isNews(now, written Ack) bool {
	moved := func(now, written uint64) bool {
		return now < written || now > written && r.Source.lastEvent() > written
	}
	revised := written
	revised.Revision, revised.AppliedRevision = now.Revision, now.AppliedRevision
	return !reflect.DeepEqual(now, revised) || moved(now.Revision, written.Revision) ||
		moved(now.AppliedRevision, written.AppliedRevision)
}

// now returns what there is to say. Of bad keys and rejected objects it counts those at the revision, or
// those of now, whichever is more: then nothing was wrong at the revision if nothing is counted.
func (r *reporter) now(ctx context.Context) Ack {
	store, replaced := r.Source.current()
	r.mu.Lock()
	a := Ack{Store: store}
	var attempted inputs.Rejected
	if at := r.reached[reconciler.Attempted]; at.of == replaced {
		a.Revision, attempted = at.Revision, at.Rejected
	}
	if at := r.reached[reconciler.Applied]; at.of == replaced {
		// The goroutine of the other milestone may be later.
		a.AppliedRevision, a.Revision = at.Revision, max(at.Revision, a.Revision)
	}
	stopped := r.problems[aboutLoop]
	r.mu.Unlock()
	bad, n := r.Source.badSince(a.Revision)
	rejected, missing := r.path.Look()
	if store != "" && r.claimed.Load() != 0 {
		r.problem(ctx, "the way to Acks.Loop", missing)
	}
	if rejected.N < attempted.N {
		rejected = attempted
	}
	a.Bad, a.Held = n+rejected.N, r.Source.Holding()
	if _, since := r.Source.current(); since != replaced {
		// What is wrong may be what is wrong with another store.
		a.Revision, a.AppliedRevision = 0, 0
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

	var p lines
	p.add(stopped != nil, "%s", stopped)
	p.add(missing != nil, "%s", missing)
	p.add(a.Held > 0, "the store was replaced: %d row(s) that it does not have are held", a.Held)
	for _, err := range slices.Concat(bad, rejected.Errs) {
		p.add(true, "%s", err)
	}
	p.add(a.Unpruned, "%s", why)
	p.add(figures.Paused, "the reconciler is paused")
	if a.Failing+a.Blocked+a.Paused > 0 || a.AppliedRevision < a.Revision {
		p.addUnapplied(ctx, r.Loop)
	}
	a.Problems = p
	return a
}

// put writes an ack, unless the store is another one, or another program has the keys.
func (r *reporter) put(ctx context.Context, a Ack) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	done, err := clientv3.NewKV(r.client).Txn(ctx).
		If(clientv3.Compare(clientv3.Value(r.identity), "=", a.Store), r.heldWith(r.claimed.Load())).
		Then(r.say(a)).Commit()
	if err == nil && !done.Succeeded {
		err = fmt.Errorf("the store is not the one that the rows are from, or %s is not that of this program", r.alive)
	}
	return err
}

// say returns the write of an ack.
func (r *reporter) say(a Ack) clientv3.Op {
	value, _ := json.Marshal(a) // it has only numbers and texts
	return clientv3.OpPut(r.ack, string(value))
}

// problem keeps that something works or not, and tells health and the log if that is news. err is
// ignored when ctx has ended.
func (r *reporter) problem(ctx context.Context, what string, err error) {
	err = withCause(ctx, r.client, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if err != nil && r.problems[what] == nil {
		r.Log.Warn(untold, "key", what, "error", err)
	}
	r.problems[what] = err
	var errs []error
	for _, what := range slices.Sorted(maps.Keys(r.problems)) {
		if err := r.problems[what]; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if now := fmt.Sprint(errs); now == r.told {
		return
	} else if r.told = now; len(errs) > 0 {
		r.Health.Degraded(untold, errors.Join(errs...))
	} else {
		r.Health.OK("the store is told")
	}
}

const untold, aboutLoop = "The store is not told how far this agent is", "Acks.Loop"
