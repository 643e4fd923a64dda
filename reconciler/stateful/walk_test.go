// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
)

// walk is a random walk: programs write, replace and delete rows without care, while the target
// fails half way, panics and is slow.
type walk struct {
	*env
	rng    *rand.Rand
	server *server
	// versions are old versions of the rows, including those from before a deletion.
	versions map[string][]*zone
	drift    bool
}

const walkNames = 6

func TestTheTargetConvergesUnderRandomFaults(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			s := newServer()
			walkThrough(t, s, s, workers, false)
		})
		t.Run(fmt.Sprintf("%d worker(s), and a store", workers), func(t *testing.T) {
			o := &spaced{storing: newStoring()}
			o.flaky = true
			walkThrough(t, o, o.server, workers, false)
			require.Positive(t, o.stores)
			for name, text := range o.states {
				var records []string
				require.NoError(t, json.Unmarshal([]byte(text), &records))
				require.NotContains(t, text, `["`, "the text of the annotation has spaces")
				require.Len(t, o.records[name], len(records), "the store and the target have the same records")
			}
		})
		t.Run(fmt.Sprintf("%d worker(s), and drift", workers), func(t *testing.T) {
			s := newServer()
			walkThrough(t, observing{s}, s, workers, true)
		})
	}
}

func walkThrough(t *testing.T, of impl, s *server, workers int, drift bool) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		w := &walk{
			env: newEnv(t), rng: rand.New(rand.NewPCG(seed, 0)), server: s,
			versions: map[string][]*zone{}, drift: drift,
		}
		w.faults(seed)
		start(w.env, w.config(reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }),
			reconciler.WithRetry(10*time.Millisecond, time.Second)), of)
		loop := w.Loop
		other := w.config(reconciler.WithName("other"), reconciler.WithoutPruning())
		other.SetStatus, other.GetStatus = (*zone).SetOther, (*zone).GetOther
		other.Operations = noOperations{}
		w.Start(other)

		for range long.Times(200) {
			w.Write(func(wtxn statedb.WriteTxn) { w.step(wtxn, fmt.Sprintf("zone%d", w.rng.IntN(walkNames))) })
			time.Sleep(time.Duration(w.rng.IntN(20)) * time.Millisecond)
		}
		w.server.before(nil)
		w.Pass(time.Minute)
		if drift {
			_, err := loop.Refresh(t.Context())
			require.NoError(t, err)
			w.Pass(time.Minute)
		}
		w.check()
		w.comeBack()
		w.check()
	})
}

// comeBack deletes all rows, and inserts clones of them.
func (w *walk) comeBack() {
	var rows []*zone
	w.Write(func(wtxn statedb.WriteTxn) {
		for z := range w.Table.All(wtxn) {
			rows = append(rows, z)
			w.delete(wtxn, z)
		}
	})
	w.Pass(time.Minute)
	require.Empty(w, w.server.records)
	for _, z := range rows {
		w.restore(z)
	}
	w.Pass(time.Minute)
}

// faults makes the target fail, panic and be slow at random.
func (w *walk) faults(seed uint64) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	w.server.before(func(record string) error {
		mu.Lock()
		fault := rng.IntN(10)
		mu.Unlock()
		switch fault {
		case 0, 1:
			return errors.New("failed at " + record)
		case 2:
			panic("panicked at " + record)
		case 3, 4, 5:
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
}

// step makes a random change of a row, or of the target if there is drift.
func (w *walk) step(wtxn statedb.WriteTxn, name string) {
	z, _, found := w.Table.Get(wtxn, byName.Query(name))
	if found {
		w.versions[name] = append(w.versions[name], z)
	}
	old := named(name)
	if versions := w.versions[name]; len(versions) > 0 {
		old = versions[w.rng.IntN(len(versions))].Clone()
	}
	what := w.rng.IntN(12)
	switch {
	case !found && what < 6: // a clone of a row that was deleted
		w.put(wtxn, old)
	case !found:
		w.put(wtxn, named(name))
	case what == 0:
		w.delete(wtxn, z)
	case what == 1: // replaced within a transaction
		w.delete(wtxn, z)
		w.put(wtxn, named(name))
	case what == 2: // a writer without annotations
		w.put(wtxn, named(name))
	case what == 3: // a writer that corrupts the annotation
		next := z.Clone()
		next.SetAnnotation(annotation, "{")
		w.put(wtxn, next)
	case what == 4: // a writer with an old version of the row
		w.put(wtxn, old)
	case what == 5 && w.drift:
		w.server.set(name, "stray", true)
	case what == 6 && w.drift:
		w.server.set(name, "a", false)
	default:
		w.put(wtxn, z.Clone())
	}
}

// put writes a row with random records.
func (w *walk) put(wtxn statedb.WriteTxn, z *zone) {
	z.Records = nil
	for _, record := range []string{"a", "b", "c", "d", "e"} {
		if w.rng.IntN(2) == 0 {
			z.Records = append(z.Records, record)
		}
	}
	z.Status, z.Other = reconciler.StatusPending(), reconciler.StatusPending()
	_, _, err := w.Table.Insert(wtxn, z)
	require.NoError(w, err)
}

func (w *walk) delete(wtxn statedb.WriteTxn, z *zone) {
	_, _, err := w.Table.Delete(wtxn, z)
	require.NoError(w, err)
}

// check requires that the target has the records of the table, and that each annotation has its
// row's.
func (w *walk) check() {
	total := 0
	for z := range w.Table.All(w.DB.ReadTxn()) {
		w.expect(z.Name, "Done")
		require.ElementsMatch(w, z.Records, w.server.has(z.Name))
		text, err := json.Marshal(z.Records)
		require.NoError(w, err)
		require.JSONEq(w, string(text), z.GetAnnotations()[annotation])
		if len(z.Records) > 0 {
			total++
		}
	}
	require.Len(w, w.server.records, total, "of deleted rows nothing is left")
}

// noOperations are operations that do nothing.
type noOperations struct{ reconciler.Pruner[*zone] }

func (noOperations) Update(context.Context, statedb.ReadTxn, statedb.Revision, *zone) error {
	return nil
}
func (noOperations) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *zone) error {
	return nil
}
