// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// step causes one event.
func (w *together) step() {
	events := []func(id uint64) string{
		w.write, w.write, w.write, w.rewrite, w.touch, w.remove, w.replace, w.spoil, w.spoil, w.lose, w.orphan,
		w.resync, w.pauseAll, w.pauseSome, w.pauseKey, w.resume, w.reapply, w.reapply, w.verify, w.verify, w.refresh, w.retry, w.reconfigure,
		w.wait, w.wait, w.wait, w.wait, w.plan, w.device, w.fight, w.fight, w.warmOrCool, w.restartLoop, w.restartProcess, w.gate, w.initialize,
		w.pass, w.pass, w.pass, w.pass,
	}
	id := 1 + w.rng.Uint64N(cold)
	w.world.event("%s", events[w.rng.IntN(len(events))](id))
}

// put writes rows.
func (w *together) put(rows ...*part) { w.e.Insert(rows...) }

func (w *together) write(id uint64) string {
	n := 1 + w.rng.Uint64N(4)
	var rows []*part
	for i := range n {
		rows = append(rows, w.world.newRow(1+(id+i)%cold, w.rng.IntN(3)))
	}
	w.put(rows...)
	return fmt.Sprintf("%d rows from %d are written", n, 1+id%cold)
}

// rewrite writes a row a few times, perhaps beside its operation.
func (w *together) rewrite(id uint64) string {
	for range 1 + w.rng.IntN(4) {
		w.put(w.world.newRow(id, w.rng.IntN(3)))
		time.Sleep(pick(w.rng, 0, time.Millisecond, 10*time.Millisecond))
	}
	return fmt.Sprintf("row %d was rewritten", id)
}

// touch writes all rows as they are, as another writer of the table does. Beside the table that is another version.
func (w *together) touch(uint64) string {
	w.e.Write(func(wtxn statedb.WriteTxn) {
		for row := range w.e.Table.All(wtxn) {
			if row = row.Clone(); w.beside {
				row.Version = w.world.wish(row.ID, row.Value)
			}
			_, _, err := w.e.Table.Insert(wtxn, row)
			require.NoError(w, err)
		}
	})
	return "all rows are written as they are"
}

func (w *together) removeIn(wtxn statedb.WriteTxn, id uint64) {
	if _, found, err := w.e.Table.Delete(wtxn, &part{ID: id}); err == nil && found {
		w.world.wish(id, absent)
	}
}

func (w *together) remove(id uint64) string {
	w.e.Write(func(wtxn statedb.WriteTxn) { w.removeIn(wtxn, id) })
	return fmt.Sprintf("row %d is deleted", id)
}

// replace deletes a row and inserts it again, in one transaction or in two.
func (w *together) replace(id uint64) string {
	together, value := w.one(2), w.rng.IntN(3)
	w.e.Write(func(wtxn statedb.WriteTxn) {
		w.removeIn(wtxn, id)
		if together {
			_, _, err := w.e.Table.Insert(wtxn, w.world.newRow(id, value))
			require.NoError(w, err)
		}
	})
	if !together {
		time.Sleep(pick(w.rng, 0, time.Millisecond, 20*time.Millisecond))
		w.put(w.world.newRow(id, value))
	}
	return fmt.Sprintf("row %d is deleted and inserted", id)
}

func (w *together) spoil(id uint64) string {
	if w.prunes {
		return w.orphan(id)
	}
	value := w.rng.IntN(3)
	w.world.drift(id, value)
	return fmt.Sprintf("the target gets %d = %d", id, value)
}

func (w *together) lose(id uint64) string {
	if w.prunes {
		return w.orphan(id)
	}
	w.world.drift(id, absent)
	return fmt.Sprintf("the target loses %d", id)
}

func (w *together) orphan(id uint64) string {
	id = hot + 1 + id%(orphans-hot)
	w.world.drift(id, w.rng.IntN(3))
	return fmt.Sprintf("the target gets orphan %d", id)
}

// driftAll changes every third object up to last.
func (w *together) driftAll(last uint64) {
	for id := uint64(1); id <= last && !w.prunes; id += 3 {
		w.world.drift(id, pick(w.rng, absent, 0, 1, 2, 3))
	}
	w.orphan(1)
	w.world.event("the target has changed")
}

func (w *together) resync(uint64) string {
	if w.prunes {
		w.loop.Load().Prune()
		return "prune"
	}
	w.loop.Load().Resync()
	return "resync"
}

// plan plans beside all else.
func (w *together) plan(uint64) string {
	loop := w.loop.Load()
	w.plans.Go(func() {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		p, err := loop.Plan(ctx)
		w.world.event("a plan: %s, %v", p.Summary(), err)
		if err == nil && (p.Orphan+p.Different+p.Equal > p.Listed || p.Reapplied > p.Equal) {
			w.world.violate("(g) a plan of %d objects: %s", p.Listed, p)
		}
	})
	return "a plan begins"
}

// pauseAll pauses the loop for a while, half of the times beside an operation of a row that is written again afterwards.
func (w *together) pauseAll(id uint64) string {
	loop, beside := w.loop.Load(), w.one(2)
	if beside {
		w.put(w.world.newRow(id, w.rng.IntN(3)))
		w.e.Pass(pick(w.rng, 0, 5*time.Millisecond))
	}
	w.world.event("pause")
	loop.Pause()
	if w.one(4) {
		return "pause"
	}
	w.e.Pass(pick(w.rng, 0, time.Millisecond, 30*time.Millisecond, time.Second))
	w.world.event("resume")
	loop.Resume()
	if beside {
		w.e.Pass(pick(w.rng, 0, 30*time.Millisecond, 200*time.Millisecond))
		w.put(w.world.newRow(id, w.rng.IntN(3)))
	}
	return fmt.Sprintf("pause and resume; row %d is written before and after: %t", id, beside)
}

func (w *together) pauseSome(id uint64) string {
	w.loop.Load().PauseObjects(func(p *part) bool { return p.ID%3 == id%3 })
	return fmt.Sprintf("objects like %d are paused", id)
}

func (w *together) pauseKey(id uint64) string {
	return fmt.Sprintf("object %d is paused: %v", id, w.loop.Load().PauseOnly(strconv.FormatUint(id, 10)))
}

func (w *together) resume(uint64) string {
	w.loop.Load().Resume()
	return "resume"
}

// briefly returns a context for a call that waits for the loop.
func (w *together) briefly() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.Context(), 50*time.Millisecond)
}

func (w *together) reapply(id uint64) string {
	ctx, cancel := w.briefly()
	defer cancel()
	_, err := w.loop.Load().Reapply(ctx, &part{ID: id}, &part{ID: 1 + id%cold})
	return fmt.Sprintf("reapply %d: %v", id, err)
}

func (w *together) verify(id uint64) string {
	ctx, cancel := w.briefly()
	defer cancel()
	err := w.loop.Load().Verify(ctx, &part{ID: id}, &part{ID: 1 + id%cold}, &part{ID: cold + 1}, &part{ID: id})
	return fmt.Sprintf("verify %d: %v", id, err)
}

func (w *together) refresh(id uint64) string {
	ctx, cancel := w.briefly()
	defer cancel()
	var keys []string
	if w.one(2) {
		keys = append(keys, strconv.FormatUint(id, 10))
	}
	_, err := w.loop.Load().Refresh(ctx, keys...)
	return fmt.Sprintf("refresh %v: %v", keys, err)
}

func (w *together) retry(uint64) string {
	ctx, cancel := w.briefly()
	defer cancel()
	_, err := w.loop.Load().Retry(ctx)
	return fmt.Sprintf("retry: %v", err)
}

func (w *together) reconfigure(uint64) string {
	require.NoError(w, w.loop.Load().Reconfigure(w.draw))
	return fmt.Sprintf("settings: %+v", w.loop.Load().Settings())
}

// device inserts, rewrites or deletes a device, which rows need and which triggers an update of others.
func (w *together) device(id uint64) string {
	wtxn := w.e.DB.WriteTxn(w.devices)
	defer wtxn.Commit()
	device, there := &part{ID: id % 4}, false
	if w.one(3) {
		_, there, _ = w.devices.Delete(wtxn, device)
	} else {
		_, _, err := w.devices.Insert(wtxn, device)
		require.NoError(w, err)
	}
	return fmt.Sprintf("device %d changes; deleted: %t", device.ID, there)
}

// release inserts all devices and opens the gate.
func (w *together) release() {
	wtxn := w.e.DB.WriteTxn(w.devices)
	defer wtxn.Commit()
	for id := range uint64(4) {
		_, _, err := w.devices.Insert(wtxn, &part{ID: id})
		require.NoError(w, err)
	}
	w.world.open()
}

func (w *together) gate(uint64) string {
	w.world.open()
	return "the gate opens"
}

func (w *together) initialize(uint64) string {
	if w.done == nil {
		return "-"
	}
	w.done()
	return "the table is initialised"
}

// warm rewrites the hot rows faster than their operations, which take at least 10 ms, until cool.
func (w *together) warm() {
	if w.heat.stop != nil {
		return
	}
	stop := make(chan struct{})
	w.heat.stop = stop
	every := pick(w.rng, 4*time.Millisecond, 9*time.Millisecond)
	w.heat.Go(func() {
		for i := 0; ; i++ {
			w.put(w.world.newRow(cold+1, i%2), w.world.newRow(cold+2, i/2%2))
			select {
			case <-stop:
				return
			case <-time.After(every):
			}
		}
	})
}

// fight has another program undo what the loop does about an object, or all such programs end.
func (w *together) fight(id uint64) string {
	if w.prunes || w.foes.stop != nil {
		w.peace()
		return "the fights have ended"
	}
	value, every := pick(w.rng, absent, 3), pick(w.rng, 5*time.Millisecond, 50*time.Millisecond, 200*time.Millisecond)
	w.undo(id, value, every)
	return fmt.Sprintf("another program makes %d = %d every %s", id, value, every)
}

// undo has another program undo what the loop does about an object, until peace.
func (w *together) undo(id uint64, value int, every time.Duration) {
	stop := make(chan struct{})
	w.foes.stop = stop
	w.foes.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(every):
			}
			if w.world.holdsNow(id) != value {
				w.world.drift(id, value)
			}
		}
	})
}

// peace ends fights.
func (w *together) peace() {
	if w.foes.stop != nil {
		close(w.foes.stop)
		w.foes.Wait()
		w.foes.stop = nil
	}
}

func (w *together) cool() {
	if w.heat.stop != nil {
		close(w.heat.stop)
		w.heat.Wait()
		w.heat.stop = nil
	}
}

func (w *together) warmOrCool(uint64) string {
	if w.heat.stop != nil {
		w.cool()
		return "the hot rows are left alone"
	}
	w.warm()
	return "the hot rows are rewritten all the time"
}

// restartLoop ends the loop and starts another in the same process.
func (w *together) restartLoop(id uint64) string {
	w.stop()
	for w.one(2) {
		w.write(id)
		w.remove(1 + id%cold)
	}
	w.startLoop()
	return "another loop of the same table"
}

func (w *together) restartProcess(uint64) string {
	if w.one(2) {
		w.restart()
	}
	return "another process"
}

func (w *together) pass(uint64) string {
	d := time.Millisecond << w.rng.IntN(10)
	w.e.Pass(d)
	return "pass " + d.String()
}

// wait starts a wait, and checks (b) at its end.
func (w *together) wait(id uint64) string {
	x, loop, began := w.world, w.loop.Load(), time.Now()
	what, m := w.rng.IntN(4), pick(w.rng, reconciler.Attempted, reconciler.Applied, reconciler.Applied)
	if w.one(4) {
		id += hot - cold
	}
	ids := []uint64{id}
	if what == 0 || what == 1 {
		for other := uint64(1); other <= hot; other++ {
			ids = append(ids, other)
		}
	} else if what == 2 && w.one(2) {
		ids = append(ids, 1+id%cold)
	}
	within := time.Hour
	if w.one(6) {
		within = time.Duration(w.rng.IntN(300)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(w.Context(), within)
	name := fmt.Sprintf("%s of %d for %s at %s", [...]string{"Wait", "WaitAll", "WaitFor", "WaitKey"}[what], id, m, clock(began))
	x.mu.Lock()
	asked := map[uint64]version{}
	for _, id := range ids {
		if v := x.newest(id); v.number > 0 {
			asked[id] = v
		}
	}
	x.waits[&name] = true
	x.mu.Unlock()
	until := w.e.Table.Revision(w.e.DB.ReadTxn())
	go func() {
		defer cancel()
		var err error
		switch what {
		case 0:
			_, err = loop.Wait(ctx, until, m)
		case 1:
			_, err = loop.WaitAll(ctx, m)
		case 2:
			var objs []*part
			for _, id := range ids {
				objs = append(objs, &part{ID: id})
			}
			_, err = loop.WaitFor(ctx, m, objs...)
		default:
			_, err = loop.WaitKey(ctx, strconv.FormatUint(id, 10), m)
		}
		x.event("the %s ends: %v", name, err)
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.waits, &name)
		if err != nil && !isEnd(err) && !errors.Is(err, inspect.ErrNotFound) {
			x.violateLocked("(b) the %s ends: %v", name, err)
		}
		if err != nil || m != reconciler.Applied {
			return
		}
		for id, v := range asked {
			// For a wait for a revision, a change that is followed by another counts as the later one. A hot row may have
			// been written while the wait began.
			later := what <= 1 && x.newest(id).number > v.number || id > cold && v.at.Equal(began)
			if !later && !x.reached(loop, id, v.number) {
				x.violateLocked("(b) the %s ended, and version %d of object %d was not applied\n%s", name, v.number, id, x.history(id))
			}
		}
	}()
	synctest.Wait()
	return "a " + name
}

// isEnd reports whether a wait ended because its context or its loop ended.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, inspect.ErrStopped)
}

// openWaits returns the waits that have not ended.
func (x *togetherWorld) openWaits() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	for name := range x.waits {
		names = append(names, *name)
	}
	slices.Sort(names)
	return strings.Join(names, "; ")
}
