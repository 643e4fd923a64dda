// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// process is a program with a table and a loop. It reads its desired state from a file.
type process struct {
	w     *world
	store *store
	// over: it has reached the point where it is killed. dead: its actions have no effect any more. The
	// lock of the world guards both.
	over, dead bool
	// cancel stops the loop; end stops it and waits until it has ended.
	cancel context.CancelFunc
	end    func()
}

const (
	killGrace   = 2 * time.Second
	killTimeout = time.Second
	// longestLag is the longest delay of reads from the outside system. It is less than the grace.
	longestLag = 1500 * time.Millisecond
)

// start starts a process on the state that the previous one has left.
func (w *world) start() {
	w.Helper()
	p := &process{w: w}
	if w.ending == stopped && w.p != nil {
		p.store = w.p.store
	} else {
		p.store = newStore(w)
	}
	p.store.mu.Lock()
	p.store.owner = p
	p.store.mu.Unlock()
	p.restore()
	p.sync(true)
	ctx, cancel := context.WithCancel(w.Context())
	p.cancel = cancel
	loop, err := newLoop(p.config(), p.options()...)
	require.NoError(w, err)
	w.p = p
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	p.end = sync.OnceFunc(func() {
		cancel()
		require.NoError(w, <-ended)
	})
	w.Cleanup(p.end)
}

func (p *process) config() reconciler.Config[*bucket] {
	cfg := reconciler.Config[*bucket]{
		DB: p.store.db, Table: p.store,
		Clone: (*bucket).Clone, SetStatus: (*bucket).SetStatus, GetStatus: (*bucket).GetStatus,
		Log: slog.New(slog.DiscardHandler),
		Options: []reconciler.Option{
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter, s.Concurrency = 0, p.w.workers }), reconciler.WithRetry(200*time.Millisecond, 2*time.Second),
		},
	}
	if p.w.sweeps {
		cfg.Sweeper = p
		cfg.Options = append(cfg.Options, reconciler.WithPruning(3*time.Second))
	}
	return cfg
}

func (p *process) options() []managed.ReconcilerOption {
	opts := []managed.ReconcilerOption{
		managed.WithExternalConnecter(p),
		managed.WithTimeout(killTimeout), managed.WithCreationGracePeriod(killGrace),
		managed.WithPollInterval(5 * time.Second), managed.WithLeaveHook(p.leave),
	}
	if !p.w.chosen {
		opts = append(opts, deterministic(nil)...)
	}
	if p.w.filed() {
		opts = append(opts, managed.WithCriticalAnnotationUpdater(p))
	}
	return opts
}

// UpdateCriticalAnnotations writes the annotations into the file. It is called after each create.
func (p *process) UpdateCriticalAnnotations(_ context.Context, b *bucket) error {
	return p.file("file", b)
}

// file writes the annotations of a row into the file.
func (p *process) file(point string, b *bucket) error {
	if err := p.reach("before "+point, b.Name); err != nil {
		return err
	}
	if err := p.alive(func(w *world) error {
		w.notes[b.Name] = maps.Clone(b.Annotations)
		return nil
	}); err != nil {
		return err
	}
	return p.reach("after "+point, b.Name)
}

// List lists the resources as a delayed read shows them.
func (p *process) List(_ context.Context, _ statedb.ReadTxn, yield func(*bucket) bool) error {
	var listed []*bucket
	if err := p.alive(func(w *world) error {
		for id := range w.outside.past {
			if v := w.outside.was(id); v.exists && !w.outside.marked[id] {
				b := named(v.owner)
				managed.SetExternalName(b, id)
				b.Finalizers = []string{managed.FinalizerName}
				listed = append(listed, b)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, b := range listed {
		if !yield(b) {
			break
		}
	}
	return nil
}

// restore inserts the rows that the previous process has left, with status Pending: a loop does not
// process rows that are Done when it starts.
func (p *process) restore() {
	rows := p.store.rows()
	p.w.change(func() { rows = append(rows, p.w.kept...) })
	wtxn := p.store.db.WriteTxn(p.store.RWTable)
	defer wtxn.Commit()
	for _, b := range rows {
		_, _, err := p.store.RWTable.Insert(wtxn, b.Clone().SetStatus(reconciler.StatusPending()))
		require.NoError(p.w, err)
	}
}

// writer returns a writer for the program's own writes, which are not kill points.
func (p *process) writer() managed.Writer[*bucket] {
	cfg := p.config()
	cfg.Table = p.store.RWTable
	return managed.NewWriter(cfg)
}

// edit changes a row, if it exists.
func (p *process) edit(b *bucket, change func(*bucket)) {
	wtxn := p.store.db.WriteTxn(p.store.RWTable)
	defer wtxn.Commit()
	_, err := p.writer().Edit(wtxn, b, change)
	require.NoError(p.w, err)
}

// meanwhile writes a row during a call, as the writers of the world do.
func (p *process) meanwhile(name string) {
	var edits int
	p.w.change(func() {
		if p.w.edited {
			p.w.edits++
			edits = p.w.edits
		}
	})
	if edits > 0 {
		p.edit(named(name), func(b *bucket) { b.SetAnnotation("example.com/edit", strconv.Itoa(edits)) })
		// Without it the passes would follow one another without end, at one moment of the fake time.
		time.Sleep(50 * time.Millisecond)
	}
}

// share writes a row as another reconciler does that does not know this one.
func (p *process) share(name string) {
	wtxn := p.store.db.WriteTxn(p.store.RWTable)
	defer wtxn.Commit()
	if row, _, found := p.store.RWTable.Get(wtxn, byName.Query(name)); found {
		next := row.Clone()
		next.Other = reconciler.StatusDone()
		_, _, err := p.store.RWTable.Insert(wtxn, next)
		require.NoError(p.w, err)
	}
}

// sync makes the table match the file, and removes objects that are gone from the file. starting: the
// table has only the rows that the previous process has left.
func (p *process) sync(starting bool) {
	wtxn := p.store.db.WriteTxn(p.store.RWTable)
	defer wtxn.Commit()
	p.w.change(func() {
		if p.dead {
			return
		}
		for _, name := range p.w.names {
			require.NoError(p.w, p.syncOne(wtxn, name, starting))
		}
	})
}

func (p *process) syncOne(wtxn statedb.WriteTxn, name string, starting bool) error {
	w := p.w
	is, wanted := w.wants[name]
	row, _, found := p.store.RWTable.Get(wtxn, byName.Query(name))
	desired := named(name)
	if !found && w.filed() {
		desired.Annotations = maps.Clone(w.notes[name])
	}
	switch {
	case !found && is.deleted && !starting:
		delete(w.wants, name)
		delete(w.notes, name)
		return nil
	case !found && !wanted, found && managed.WasDeleted(row):
		return nil
	case wanted && (!found || !is.deleted):
		if _, err := p.writer().Apply(wtxn, desired, func(b *bucket) {
			b.Size = is.size
			b.RemoveAnnotation(managed.AnnotationPrefix + "deletion-policy")
			if is.orphan {
				managed.SetDeletionPolicy(b, managed.DeletionOrphan)
			}
		}); err != nil {
			return err
		}
		is.again = false
		w.wants[name] = is
	}
	if wanted && !is.deleted {
		return nil
	}
	if is.orphan {
		if _, err := p.writer().Edit(wtxn, desired, func(b *bucket) {
			managed.SetDeletionPolicy(b, managed.DeletionOrphan)
		}); err != nil {
			return err
		}
	}
	_, err := p.writer().Delete(wtxn, desired)
	return err
}

// begin starts the first process of a world, and waits until it is idle.
func (w *world) begin() {
	w.start()
	synctest.Wait()
}
