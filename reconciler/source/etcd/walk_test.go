// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/source"
)

// walk is a random walk of a store, which is replaced and filled slowly, or goes back to a backup, whose keys turn bad or
// share rows, and whose connection breaks, or is to a member of another cluster. A source follows it.
type walk struct {
	*following
	rng *rand.Rand
	// past has the values that each key has had. Its row may have one of them while the key is bad: the source does
	// not know that another store had lost the key before.
	past map[string]map[string]bool
	// held has the rows that the table had when the store was replaced, and that no key of the store has wanted.
	held map[string]string
	// changed is when the prefix changed last, or the store was replaced. calm reports whether the store was quiet
	// for a time between two comparisons since it was replaced.
	changed    time.Time
	calm       bool
	allowEmpty bool
	// other is the store of another cluster.
	other *fakeServer
}

func TestTableEqualsTheStoreInARandomWalk(t *testing.T) {
	for range long.Times(150) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWalk(t, seed).walk() })
		})
		if t.Failed() {
			return
		}
	}
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{rng: rand.New(rand.NewPCG(seed, 0)), past: map[string]map[string]bool{}, held: map[string]string{}, calm: true}
	relists := []time.Duration{5 * time.Second, 45 * time.Second, 10 * time.Minute, 24 * time.Hour}
	slow, delays, mu := time.Duration(w.rng.IntN(3))*time.Second, rand.New(rand.NewPCG(seed, 1)), sync.Mutex{}
	delay := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(delays.Int64N(int64(slow) + 1))
	}
	w.following = follow(t, delay, func(cfg *Config[*thing], to *source.Config[*thing]) {
		cfg.Relist, cfg.PageSize = relists[w.rng.IntN(4)], 1+w.rng.IntN(4)
		w.allowEmpty = w.rng.IntN(3) == 0
		to.AllowEmpty = w.allowEmpty
	})
	w.changed = time.Now()
	w.other = newFakeServer(delay)
	w.other.cluster = 2
	for range 1000 {
		w.other.write(map[string]string{"a": "other/1"})
	}
	return w
}

// put writes some keys, most of them with values that decode.
func (w *walk) put() {
	values := map[string]string{}
	for range 1 + w.rng.IntN(3) {
		key := string("abcdefgh"[w.rng.IntN(8)])
		value := fmt.Sprintf("%s/%d", key, w.rng.IntN(1000))
		switch w.rng.IntN(10) {
		case 0, 1:
			value = ""
		case 2:
			value = "bad"
		case 3, 4:
			value = fmt.Sprintf("%c/%d", "abxy"[w.rng.IntN(4)], w.rng.IntN(1000))
		}
		values[key] = value
	}
	_, before := w.now()
	for key, value := range values {
		row, _, decodes := strings.Cut(value, "/")
		if decodes || value == "" && before[key] != nil {
			// The rows that the key had go, whichever store they were of.
			for past := range w.past[key] {
				row, _, _ := strings.Cut(past, "/")
				delete(w.held, row)
			}
		}
		if decodes {
			delete(w.held, row)
			if w.past[key] == nil {
				w.past[key] = map[string]bool{}
			}
			w.past[key][value] = true
		}
	}
	w.lull()
	for key, value := range values {
		if value != "" || before[key] != nil {
			w.changed = time.Now()
		}
	}
	w.note("put", values)
	w.write(values)
}

// note logs what happens, for a walk that fails.
func (w *walk) note(what string, args ...any) {
	w.Logf("%s %s %v; rows %v, held %d, the store was quiet: %t", time.Now().Format("15:04:05.000"), what, args, w.rows(), w.source.Holding(), w.calm)
}

// lull notes how long the prefix has not changed.
func (w *walk) lull() {
	// A comparison may be late by an answer and the reading of a list.
	w.calm = w.calm || time.Since(w.changed) >= check
}

func (w *walk) walk() {
	defer w.stop()
	for range 60 {
		switch n := w.rng.IntN(20); {
		case n < 12:
			w.put()
		case n < 13:
			w.lull()
			w.replaceStore()
		case n < 15:
			w.note("cut")
			w.cut()
		case n < 16 && w.rng.IntN(3) == 0:
			w.goBack()
		case n < 16 && w.rng.IntN(3) == 0:
			w.note("another member")
			w.set(func() { w.watched = w.other })
			w.cut()
		case n < 16:
			w.note("compact")
			w.compact()
		case n < 17:
			away := w.rng.IntN(2) == 0
			w.note("away", away)
			w.away(away)
		case n < 18 && w.rng.IntN(2) == 0:
			w.load()
		case n < 18:
			w.away(false)
			w.note("settle")
			w.wait(5 * check)
			w.settled()
		default:
			w.wait(time.Duration(w.rng.Int64N(int64(2 * check))))
		}
		w.wait(time.Duration(w.rng.Int64N(int64(check * 2 / 3))))
		w.check()
	}
	w.away(false)
	w.wait(10 * check)
	w.settled()
}

// away has the server go away, or come back.
func (w *walk) away(away bool) {
	w.setAway(away)
	w.set(func() { w.watched = nil })
}

// goBack brings the store back to what it was some changes before. It has the same identity, and the source compares it
// before it has passed the revisions that the source has seen. A connection may not tell.
func (w *walk) goBack() {
	w.away(false)
	restore := w.backup()
	for range 1 + w.rng.IntN(3) {
		w.put()
		w.wait(time.Duration(w.rng.Int64N(int64(check))))
	}
	w.held, w.calm, w.changed = w.rows(), false, time.Now()
	w.note("back to a backup")
	restore()
	if w.rng.IntN(2) == 0 {
		w.cut()
	}
	w.wait(4 * check)
}

// load waits until what the store has now is in the table. It takes no longer than a new connection, with a list, if the
// server is there.
func (w *walk) load() {
	w.away(false)
	w.note("load")
	ctx, cancel := context.WithTimeout(w.Context(), 5*check)
	defer cancel()
	switch err := w.source.Loaded(ctx); {
	case ctx.Err() != nil:
		w.Fatal(err)
	case (len(w.bad()) > 0 || w.source.Holding() > 0) != (err != nil):
		w.Fatalf("it is loaded, with %v; bad are %v, %d rows are held", err, w.bad(), w.source.Holding())
	case !w.source.isHolding():
		w.settled()
	}
}

// replaceStore replaces the store by an empty one, or by one with some keys.
func (w *walk) replaceStore() {
	w.held, w.calm, w.changed = w.rows(), false, time.Now()
	w.note("replace")
	w.replace()
	for range w.rng.IntN(3) {
		w.put()
	}
}

// check checks that no row was removed that the store may still be given.
func (w *walk) check() {
	w.Helper()
	if w.lull(); w.calm {
		return
	}
	rows := w.rows()
	for row := range w.held {
		if _, found := rows[row]; !found {
			w.Fatalf("the row %s is gone, but the store was not quiet since it was replaced: %v", row, rows)
		}
	}
}

// settled compares the table with the store, which was quiet for long.
func (w *walk) settled() {
	w.Helper()
	identity, keys := w.now()
	rows, wanted, bad := w.rows(), map[string]string{}, map[string]bool{}
	byAge := slices.SortedFunc(maps.Values(keys), func(a, b *mvccpb.KeyValue) int {
		return cmp.Or(cmp.Compare(a.CreateRevision, b.CreateRevision), cmp.Compare(string(a.Key), string(b.Key)))
	})
	for _, kv := range byAge {
		row, value, decodes := strings.Cut(string(kv.Value), "/")
		key := string(kv.Key)[len(fakePrefix):]
		if _, taken := wanted[row]; taken || !decodes {
			bad[key] = true
		} else {
			wanted[row] = value
		}
	}
	if len(wanted) == 0 && !w.allowEmpty && w.source.Holding() > 0 {
		return // It counts as empty.
	}
	// The row of a key that is bad now may be one from before.
	before := func(row string) bool {
		for key := range bad {
			if string(keys[key].Value) == "bad" && w.past[key][row+"/"+rows[row]] {
				return true
			}
		}
		return false
	}
	for row, value := range rows {
		if wanted[row] != value && !before(row) {
			w.Fatalf("the row %s is %s, wanted %q; bad are %v", row, value, wanted[row], w.bad())
		}
	}
	for row, value := range wanted {
		if rows[row] != value && !before(row) {
			w.Fatalf("the row %s is %q, wanted %s; bad are %v", row, rows[row], value, w.bad())
		}
	}
	if w.source.Store() != identity || w.source.Holding() > 0 {
		w.Fatalf("it follows %q, wanted %q; %d rows are held", w.source.Store(), identity, w.source.Holding())
	}
	if ready, _ := w.table.Initialized(w.db.ReadTxn()); !ready {
		w.Fatal("the table is not initialised")
	}
	w.held = map[string]string{}
}
