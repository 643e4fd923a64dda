// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
)

// attempt is one call of an operation, recorded by the target.
type attempt struct {
	op     string // delete, or what the status asked for: update or refresh
	id     uint64
	spec   string
	rev    statedb.Revision
	at     time.Time
	failed bool
}

func (a attempt) String() string {
	s := a.op
	if a.op != "delete" {
		s += "(" + a.spec + ")"
	}
	if a.failed {
		s += " failed"
	}
	return s
}

// target is the outside system: a map from id to spec. It fails on request and records all operations.
type target struct {
	mu       sync.Mutex
	realized map[uint64]string
	attempts []attempt
	prunes   [][]uint64 // the ids that each Prune had to keep
	batches  []string   // what the batch operations were called with
	faults   map[uint64]error
	pruneErr error
	// beforeOps, unless nil, is called before each operation, without the lock.
	beforeOps func(ctx context.Context, op string, s *service)
}

func newTarget() *target {
	return &target{realized: map[uint64]string{}, faults: map[uint64]error{}}
}

var (
	_ reconciler.Operations[*service]      = (*target)(nil)
	_ reconciler.BatchOperations[*service] = (*target)(nil)
)

func (tg *target) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, s *service) error {
	op := "update"
	switch s.Status.Kind {
	case reconciler.StatusKindPending:
	case reconciler.StatusKindRefreshing:
		op = "refresh"
	default:
		// An operation, retries included, must see no other status.
		op = "update in " + s.Status.Kind.String()
	}
	return tg.do(ctx, op, revision, s, func() {
		tg.realized[s.ID] = s.Spec
		s.Handle = fmt.Sprintf("handle-%d", s.ID)
	})
}

func (tg *target) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, s *service) error {
	return tg.do(ctx, "delete", revision, s, func() { delete(tg.realized, s.ID) })
}

func (tg *target) Prune(ctx context.Context, txn statedb.ReadTxn, objects iter.Seq2[*service, statedb.Revision]) error {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	keep := []uint64{}
	for s, revision := range objects {
		if revision == 0 {
			return errors.New("prune was handed an object of revision 0")
		}
		keep = append(keep, s.ID)
	}
	tg.prunes = append(tg.prunes, keep)
	if tg.pruneErr != nil {
		return tg.pruneErr
	}
	maps.DeleteFunc(tg.realized, func(id uint64, _ string) bool { return !slices.Contains(keep, id) })
	return nil
}

func (tg *target) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*service]) {
	tg.noteBatch("update", batch)
	for i := range batch {
		batch[i].Result = tg.Update(ctx, txn, batch[i].Revision, batch[i].Object)
	}
}

func (tg *target) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*service]) {
	tg.noteBatch("delete", batch)
	for i := range batch {
		batch[i].Result = tg.Delete(ctx, txn, batch[i].Revision, batch[i].Object)
	}
}

func (tg *target) noteBatch(op string, batch []reconciler.BatchEntry[*service]) {
	ids := make([]uint64, len(batch))
	for i, entry := range batch {
		ids[i] = entry.Object.ID
	}
	tg.mu.Lock()
	defer tg.mu.Unlock()
	tg.batches = append(tg.batches, fmt.Sprint(op, ids))
}

func (tg *target) do(ctx context.Context, op string, revision statedb.Revision, s *service, apply func()) error {
	if tg.beforeOps != nil {
		tg.beforeOps(ctx, op, s)
	}
	tg.mu.Lock()
	defer tg.mu.Unlock()
	err := tg.faults[s.ID]
	if revision == 0 {
		err = fmt.Errorf("%s of %d at revision 0", op, s.ID)
	}
	if err == nil {
		apply()
	}
	tg.attempts = append(tg.attempts, attempt{
		op: op, id: s.ID, spec: s.Spec, rev: revision, at: time.Now(), failed: err != nil,
	})
	return err
}

// fail makes every operation on these ids fail with the text, until heal.
func (tg *target) fail(text string, ids ...uint64) {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	for _, id := range ids {
		tg.faults[id] = errors.New(text)
	}
}

// failPrunes makes every Prune fail with the text, until heal.
func (tg *target) failPrunes(text string) {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	tg.pruneErr = errors.New(text)
}

// heal ends all failures.
func (tg *target) heal() {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	tg.pruneErr = nil
	clear(tg.faults)
}

// put changes the target without the reconciler.
func (tg *target) put(id uint64, spec string) {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	tg.realized[id] = spec
}

// has renders the content of the target, sorted by id.
func (tg *target) has() string {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	var all []string
	for _, id := range slices.Sorted(maps.Keys(tg.realized)) {
		all = append(all, fmt.Sprintf("%d=%s", id, tg.realized[id]))
	}
	return strings.Join(all, " ")
}

// attemptsOf returns the operations on one id, oldest first.
func (tg *target) attemptsOf(id uint64) []attempt {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(tg.attempts), func(a attempt) bool { return a.id != id })
}

// story renders the operations on one id in their order, and repeated ones once: how often an operation is
// retried depends on the backoff, the order does not.
func (tg *target) story(id uint64) string {
	var lines []string
	for _, a := range tg.attemptsOf(id) {
		lines = append(lines, a.String())
	}
	return strings.Join(slices.Compact(lines), ", ")
}

// pruned returns the ids that each Prune so far had to keep.
func (tg *target) pruned() [][]uint64 {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	return slices.Clone(tg.prunes)
}
