// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package benchmarks

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	store "github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
)

var joinRows = flag.Uint64("join-rows", 200_000, "the rows of DeriveLookups")

// BenchmarkDeriveSelectors has 500 policies that select among 10,000 pods with 20 labels, by two of them: first the first
// derivation, then a burst of 1,000 changed pods, from the first write until the output has all of it.
func BenchmarkDeriveSelectors(b *testing.B) {
	compare(b, selectors, contender[startJoin]{"statekeel", joinByDerivation}, contender[startJoin]{"floor", joinByHand})
}

// BenchmarkDeriveLookups has 200,000 rows with three look-ups each, in tables of which ten rows share each row (with
// -join-rows 1000000 five times as many): the first derivation, and then the time of single changes of a row that ten rows
// have looked up, from the write until one of them is in the output.
func BenchmarkDeriveLookups(b *testing.B) {
	compare(b, lookups, contender[startJoin]{"statekeel", joinByDerivation}, contender[startJoin]{"floor", joinByHand})
}

// item is a row of each table: a policy, a pod, or an output.
type item struct {
	ID      uint64
	Keys    []string // labels of a pod, or what a row looks up, the rarest first
	Version int
	Found   uint64 // in an output: the sum of what was found
}

var itemByID = store.Index[*item, uint64]{
	Name: "id", Unique: true, FromKey: index.Uint64,
	FromObject: func(i *item) index.KeySet { return index.NewKeySet(index.Uint64(i.ID)) },
}

var itemByKey = store.Index[*item, string]{
	Name: "key", FromKey: index.String, FromObject: func(i *item) index.KeySet { return index.StringSlice(i.Keys) },
}

// joinWorld has the tables. all: a found row must have all keys of the one that looks it up, which looks up the first
// only. Otherwise each key is looked up.
type joinWorld struct {
	db           *store.DB
	in, far, out store.RWTable[*item]
	all          bool
}

// startJoin starts to join two tables. wait waits until the output has all that is in them.
type startJoin = func(ctx context.Context, w *joinWorld) (wait func() error, stop func() error, err error)

func newJoinWorld(r *run, all bool) *joinWorld {
	w := &joinWorld{db: store.New(), all: all}
	for name, table := range map[string]*store.RWTable[*item]{"in": &w.in, "out": &w.out} {
		made, err := store.NewTableAny(w.db, name, nil, nil, itemByID)
		r.must(err)
		*table = made
	}
	far, err := store.NewTableAny(w.db, "far", nil, nil, itemByID, itemByKey)
	r.must(err)
	w.far = far
	r.must(w.db.Start())
	return w
}

// write writes rows, 1000 in a transaction.
func (w *joinWorld) write(table store.RWTable[*item], rows []*item) {
	for part := range slices.Chunk(rows, writeBatch) {
		wtxn := w.db.WriteTxn(table)
		for _, row := range part {
			_, _, _ = table.Insert(wtxn, row)
		}
		wtxn.Commit()
	}
}

// derive is the function of both contenders: find yields the rows that have a key.
func (w *joinWorld) derive(row *item, find func(key string, found func(*item))) *item {
	out := &item{ID: row.ID, Version: row.Version}
	keys := row.Keys
	if w.all {
		keys = keys[:1]
	}
	for _, key := range keys {
		find(key, func(far *item) {
			if !w.all || !slices.ContainsFunc(row.Keys, func(k string) bool { return !slices.Contains(far.Keys, k) }) {
				out.Found += far.ID<<20 + uint64(far.Version)
			}
		})
	}
	return out
}

func sameItem(a, b *item) bool { return a.ID == b.ID && a.Version == b.Version && a.Found == b.Found }

func joinByDerivation(ctx context.Context, w *joinWorld) (func() error, func() error, error) {
	far := derive.Lookup(w.far.ToTable(), itemByKey)
	d, err := derive.EachOf(derive.Config[*item]{DB: w.db, Same: sameItem}, w.in, w.out,
		func(r *derive.Reader, row *item) ([]*item, error) {
			return []*item{w.derive(row, func(key string, found func(*item)) {
				for far := range far.List(r, key) {
					found(far)
				}
			})}, nil
		}, far)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	wait := func() error { _, err := d.WaitAll(ctx, reconciler.Applied); return err }
	return wait, func() error { cancel(); defer d.Close(); return <-ended }, nil
}

// joinByHand keeps plain maps from the same change iterators, with none of the promises.
func joinByHand(ctx context.Context, w *joinWorld) (func() error, func() error, error) {
	wtxn := w.db.WriteTxn(w.in, w.far)
	in, _ := w.in.Changes(wtxn)
	far, err := w.far.Changes(wtxn)
	wtxn.Commit()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended, asked := make(chan error), make(chan chan struct{})
	go func() {
		defer close(ended)
		rows, fars := map[uint64]*item{}, map[uint64]*item{}
		readers, byKey := map[string]map[uint64]*item{}, map[string]map[uint64]*item{}
		add := func(to map[string]map[uint64]*item, keys []string, row *item) {
			for _, key := range keys {
				if to[key] == nil {
					to[key] = map[uint64]*item{}
				}
				to[key][row.ID] = row
			}
		}
		for ctx.Err() == nil {
			txn := w.db.ReadTxn()
			again := map[uint64]*item{}
			changes, more := far.Next(txn)
			for change := range changes {
				row := change.Object
				if old := fars[row.ID]; old != nil {
					for _, key := range old.Keys {
						delete(byKey[key], old.ID)
						for id, reader := range readers[key] {
							again[id] = reader
						}
					}
				}
				for _, key := range row.Keys {
					for id, reader := range readers[key] {
						again[id] = reader
					}
				}
				fars[row.ID] = row
				add(byKey, row.Keys, row)
			}
			changes, moreIn := in.Next(txn)
			for change := range changes {
				row := change.Object
				rows[row.ID], again[row.ID] = row, row
				keys := row.Keys
				if w.all {
					keys = keys[:1]
				}
				add(readers, keys, row)
			}
			var outs []*item
			for _, row := range again {
				out := w.derive(row, func(key string, found func(*item)) {
					for _, far := range byKey[key] {
						found(far)
					}
				})
				if had, _, found := w.out.Get(txn, itemByID.Query(row.ID)); !found || !sameItem(had, out) {
					outs = append(outs, out)
				}
			}
			w.write(w.out, outs)
			select {
			case <-more:
			case <-moreIn:
			case <-ctx.Done():
			case done := <-asked:
				if w.far.Revision(w.db.ReadTxn()) == w.far.Revision(txn) && w.in.Revision(w.db.ReadTxn()) == w.in.Revision(txn) {
					close(done)
				} else {
					go func() { asked <- done }()
				}
			}
		}
	}()
	wait := func() error {
		done := make(chan struct{})
		asked <- done
		<-done
		return nil
	}
	return wait, func() error { cancel(); defer in.Close(); defer far.Close(); return <-ended }, nil
}

// first starts a contender on tables that are full, and measures its first derivation.
func (w *joinWorld) first(r *run, start startJoin) (wait func() error, stop func()) {
	before := heapInUse()
	s := r.section()
	wait, end, err := start(r.ctx, w)
	r.must(err)
	r.must(wait())
	used := s.used()
	n := float64(w.in.NumObjects(w.db.ReadTxn()))
	r.duration(used.wall, "first")
	r.ReportMetric(float64(used.cpu.Nanoseconds())/n, "first-cpu-ns/row")
	r.ReportMetric((heapInUse()-before)/n, "heap-B/row")
	r.equal("rows of the output", uint64(w.out.NumObjects(w.db.ReadTxn())), uint64(n))
	return wait, func() {
		r.must(end())
		r.must(w.db.Stop())
	}
}

// check requires each row of the output to be as a derivation of all rows at the end.
func (w *joinWorld) check(r *run) {
	txn := w.db.ReadTxn()
	for row := range w.in.All(txn) {
		want := w.derive(row, func(key string, found func(*item)) {
			for far := range w.far.List(txn, itemByKey.Query(key)) {
				found(far)
			}
		})
		if has, _, _ := w.out.Get(txn, itemByID.Query(row.ID)); has == nil || !sameItem(has, want) {
			r.Fatalf("the output has %+v, wanted %+v", has, want)
		}
	}
}

func selectors(r *run, start startJoin) {
	w := newJoinWorld(r, true)
	random := rand.New(rand.NewPCG(1, 2))
	policies, pods := r.rows(500), r.rows(10_000)
	var rows []*item
	pod := func(id uint64, version int) *item {
		p := &item{ID: id, Version: version, Keys: []string{fmt.Sprint("app=", random.Uint64N(policies))}}
		for label := range 19 {
			p.Keys = append(p.Keys, fmt.Sprintf("l%d=%d", label, random.IntN(4)))
		}
		return p
	}
	for id := range pods {
		rows = append(rows, pod(id, 0))
	}
	w.write(w.far, rows)
	rows = nil
	for id := range policies {
		rows = append(rows, &item{ID: id, Keys: []string{fmt.Sprint("app=", id), fmt.Sprintf("l%d=%d", id%19, id%4)}})
	}
	w.write(w.in, rows)
	wait, stop := w.first(r, start)
	defer stop()
	events := r.rows(1_000)
	rows = nil
	for range events {
		rows = append(rows, pod(random.Uint64N(pods), 1))
	}
	s := r.section()
	for _, row := range rows {
		w.write(w.far, []*item{row})
	}
	r.must(wait())
	used := s.used()
	r.duration(used.wall, "burst")
	r.ReportMetric(float64(used.cpu.Nanoseconds())/float64(events), "burst-cpu-ns/event")
	w.check(r)
}

func lookups(r *run, start startJoin) {
	w := newJoinWorld(r, false)
	n := r.rows(*joinRows)
	shared := max(1, n/10)
	kinds := []string{"a", "b", "c"}
	var rows []*item
	for id := range shared * 3 {
		rows = append(rows, &item{ID: id, Keys: []string{fmt.Sprint(kinds[id%3], id/3)}})
	}
	w.write(w.far, rows)
	rows = nil
	for id := range n {
		row := &item{ID: id}
		for i, kind := range kinds {
			row.Keys = append(row.Keys, fmt.Sprint(kind, (id*uint64(i+1)+uint64(i))%shared))
		}
		rows = append(rows, row)
	}
	w.write(w.in, rows)
	rows = nil
	wait, stop := w.first(r, start)
	changes := 1 + r.rows(2_000)
	var took []time.Duration
	random := rand.New(rand.NewPCG(1, 2))
	s := r.section()
	for i := range changes {
		at := random.Uint64N(shared)
		began := time.Now()
		_, _, changed, _ := w.out.GetWatch(w.db.ReadTxn(), itemByID.Query(at)) // it looks up a<at>
		w.write(w.far, []*item{{ID: at * 3, Keys: []string{fmt.Sprint("a", at)}, Version: int(i) + 1}})
		r.wait(changed, "the change")
		took = append(took, time.Since(began))
	}
	r.must(wait())
	used := s.used()
	r.duration(quantile(took, 0.99), "change-p99")
	r.ReportMetric(float64(used.cpu.Nanoseconds())/float64(changes), "change-cpu-ns")
	w.check(r)
	stop()
	r.ReportMetric(w.oldSnapshot(shared), "snapshot-B/change")
}

// oldSnapshot changes a hundredth of the rows that were looked up, far from one another, and returns the bytes that a
// snapshot from before keeps for each change.
func (w *joinWorld) oldSnapshot(shared uint64) float64 {
	old := w.db.ReadTxn()
	var rows []*item
	for at := uint64(0); at < shared; at += 100 {
		rows = append(rows, &item{ID: at * 3, Keys: []string{fmt.Sprint("a", at)}, Version: -1})
	}
	w.write(w.far, rows)
	with := heapInUse()
	runtime.KeepAlive(old)
	without := heapInUse()
	runtime.KeepAlive(w)
	return (with - without) / float64(len(rows))
}
