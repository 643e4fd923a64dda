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
			o.mu.Lock()
			defer o.mu.Unlock()
			for name, text := range o.states {
				var records []string
				require.NoError(t, json.Unmarshal([]byte(text), &records))
				require.NotContains(t, text, `["`, "the text of the annotation has spaces")
				require.Len(t, o.records[name], len(records), "the store and the target have the same records")
			}
		})
		t.Run(fmt.Sprintf("%d worker(s), and drift", workers), func(t *testing.T) {
			o := &observing{server: newServer()}
			walkThrough(t, o, o.server, workers, true)
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
		calm := w.faults(seed)
		w.start(w.config(reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRetry(10*time.Millisecond, time.Second)), of)
		loop := w.Loop
		other := w.config(reconciler.WithName("other"), reconciler.WithoutPruning())
		other.SetStatus, other.GetStatus = (*zone).SetOther, (*zone).GetOther
		other.Operations = noOperations{}
		w.Start(other)

		for range long.Times(200) {
			w.step(fmt.Sprintf("zone%d", w.rng.IntN(walkNames)))
			time.Sleep(time.Duration(w.rng.IntN(20)) * time.Millisecond)
		}
		calm()
		pass(time.Minute)
		if drift {
			_, err := loop.Refresh(t.Context())
			require.NoError(t, err)
			pass(time.Minute)
		}
		w.check()
		w.comeBack()
		w.check()
	})
}

// comeBack deletes all rows, and inserts clones of them.
func (w *walk) comeBack() {
	var rows []*zone
	wtxn := w.DB.WriteTxn(w.Table)
	for z := range w.Table.All(wtxn) {
		rows = append(rows, z)
		w.delete(wtxn, z)
	}
	wtxn.Commit()
	pass(time.Minute)
	w.server.mu.Lock()
	require.Empty(w, w.server.records)
	w.server.mu.Unlock()
	wtxn = w.DB.WriteTxn(w.Table)
	for _, z := range rows {
		z = z.Clone()
		z.Status, z.Other = reconciler.StatusPending(), reconciler.StatusPending()
		_, _, err := w.Table.Insert(wtxn, z)
		require.NoError(w, err)
	}
	wtxn.Commit()
	pass(time.Minute)
}

// faults makes the target fail, panic and be slow at random until calm is called.
func (w *walk) faults(seed uint64) (calm func()) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	over := false
	w.server.before(func(_, record string) error {
		mu.Lock()
		fault := rng.IntN(10)
		if over {
			fault = -1
		}
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
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}

func (w *walk) records() []string {
	var out []string
	for _, record := range []string{"a", "b", "c", "d", "e"} {
		if w.rng.IntN(2) == 0 {
			out = append(out, record)
		}
	}
	return out
}

// step makes a random change of a row, or of the target if there is drift.
func (w *walk) step(name string) {
	wtxn := w.DB.WriteTxn(w.Table)
	defer wtxn.Abort()
	z, _, found := w.Table.Get(wtxn, byName.Query(name))
	if found {
		w.versions[name] = append(w.versions[name], z)
	}
	what := w.rng.IntN(12)
	switch {
	case !found && what < 6 && len(w.versions[name]) > 0: // a clone of a row that was deleted
		old := w.versions[name]
		w.put(wtxn, old[w.rng.IntN(len(old))].Clone())
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
		old := w.versions[name]
		w.put(wtxn, old[w.rng.IntN(len(old))].Clone())
	case what == 5 && w.drift:
		w.server.set(name, "stray", true)
	case what == 6 && w.drift:
		w.server.set(name, "a", false)
	default:
		w.put(wtxn, z.Clone())
	}
	wtxn.Commit()
}

func (w *walk) put(wtxn statedb.WriteTxn, z *zone) {
	z.Records = w.records()
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
	want := map[string]map[string]bool{}
	for z := range w.Table.All(w.DB.ReadTxn()) {
		require.Equal(w, reconciler.StatusKindDone, z.Status.Kind, "%s: %s", z.Name, z.Status)
		for _, record := range z.Records {
			if want[z.Name] == nil {
				want[z.Name] = map[string]bool{}
			}
			want[z.Name][record] = true
		}
		text, err := json.Marshal(z.Records)
		require.NoError(w, err)
		require.JSONEq(w, string(text), z.GetAnnotations()[annotation])
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	require.Equal(w, want, w.server.records)
}

// noOperations are operations that do nothing.
type noOperations struct{ reconciler.Pruner[*zone] }

func (noOperations) Update(context.Context, statedb.ReadTxn, statedb.Revision, *zone) error {
	return nil
}
func (noOperations) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *zone) error {
	return nil
}
