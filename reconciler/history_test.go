// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/status"
)

// TestPromisesHoldInRandomHistories runs many short random histories. A history has a table, one or
// two reconcilers, writers, third parties that rewrite rows, waits, pauses, changed settings,
// manual calls, clocks that are set back, operations that get stuck or end their goroutine, and
// stops and restarts. The writers and the targets keep a record (history_record_test.go). With the
// record the test checks these promises:
//
//	(a) A wait ends without an error only when everything that was unreconciled at
//	    its beginning, up to its revision, has been attempted or applied, or has a newer wish.
//	    For Attempted, paused objects count as attempted; in waits for a revision, so do
//	    objects in their minimum backoff. Every object that is not applied is listed as
//	    unapplied. All waits end.
//	(b) No operation of a key starts on an older wish or revision than an earlier one.
//	(c) While writers write as fast as the target works, or twice as fast, the rows that
//	    were pending before get a quarter of the operations, and the number of ready changes
//	    stays within six rounds.
//	(d) When the writers stop and the target works, every row is Done, the target equals the
//	    table, health is OK and the reconciler holds no work. Operations of a key or a group
//	    never overlap, and a prune overlaps no operation. A prune starts after the
//	    initialisation of the table, and gets every row that had an operation. A row without a
//	    status has no operation. No operation starts after the stop, and the outcome of each
//	    operation before it is written.
//	(e) No loop spins, and a loop without work makes no passes.
//	(f) A refresh of all objects applies each row once, and ends.
//	(g) After every commit of any table, each status is true: Done, Error or Blocked is shown only
//	    for a version for which an operation ended so. Beside the table the mark never goes back, a
//	    status goes back to Pending only after a success that the mark has not passed, the loop never
//	    writes the table, and in the end no outcome is left.
//
// These are the invariants of DESIGN section 6; both ledgers are drawn. STATEKEEL_LONG makes the test
// longer. If STATEKEEL_HISTORY is set, only the history with that seed runs. The seed determines the
// actions of each party, but not how they interleave, so repeat a seed with -count.
func TestPromisesHoldInRandomHistories(t *testing.T) {
	if one := os.Getenv("STATEKEEL_HISTORY"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		require.NoError(t, err)
		runHistory(t, seed)
		return
	}
	n, groups := long.Times(150), 4
	first := rand.Uint64() >> 1
	t.Logf("%d histories, seeds from %d", n, first)
	var failed atomic.Int64
	for g := range groups {
		t.Run(fmt.Sprintf("group %d", g), func(t *testing.T) {
			t.Parallel()
			for i := g; i < n && failed.Load() < maxFailed; i += groups {
				if !runHistory(t, first+uint64(i)) {
					failed.Add(1)
				}
			}
		})
	}
}

// maxFailed is the number of failed histories after which no more are run.
const maxFailed = 10

// runHistory runs one history in a bubble. Every failure message contains the seed.
func runHistory(t *testing.T, seed uint64) (well bool) {
	hung := time.AfterFunc(9*time.Minute, func() { panic(fmt.Sprintf("history %d hangs", seed)) })
	defer hung.Stop()
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("history %d: %v", seed, p))
		}
	}()
	var h *history
	synctest.Test(t, func(t *testing.T) {
		h = newHistory(t, seed)
		h.run()
	})
	if len(h.record.violations) > 0 {
		events := h.record.events[max(0, len(h.record.events)-100):]
		t.Errorf("STATEKEEL_HISTORY=%d: %s\n%s\n    %s", seed, h,
			strings.Join(h.record.violations, "\n"), strings.Join(events, "\n    "))
		return false
	}
	return true
}

// historyRow is a row with a status for each of two reconcilers, in an array or in a set. Wishes
// holds, for each reconciler, the number of the wish that it has to carry out.
type historyRow struct {
	ID       uint64
	Wishes   [2]int
	Statuses [2]reconciler.Status
	Set      reconciler.StatusSet
}

func (r *historyRow) Clone() *historyRow    { c := *r; return &c }
func (r *historyRow) TableHeader() []string { return []string{"ID"} }
func (r *historyRow) TableRow() []string    { return []string{strconv.FormatUint(r.ID, 10)} }

var historyIndex = statedb.Index[*historyRow, uint64]{
	Name:       "id",
	FromObject: func(r *historyRow) index.KeySet { return index.NewKeySet(index.Uint64(r.ID)) },
	FromKey:    index.Uint64,
	FromString: index.Uint64String,
	Unique:     true,
}

const historyTimeout = 20 * time.Millisecond

// history is one random history.
type history struct {
	*testing.T
	seed   uint64
	rng    *rand.Rand // of the goroutine that runs the history
	db     *statedb.DB
	table  statedb.RWTable[*historyRow]
	record *record
	slots  []*slot
	// sets: the rows keep their statuses in a StatusSet.
	sets     bool
	markInit func(statedb.WriteTxn)
	writers  sync.WaitGroup
	// calm: the targets cause no trouble; healed: they are fast as well.
	calm, healed, initialized atomic.Bool
	// rewrites: a third party has rewritten rows without a new wish.
	rewrites atomic.Bool
	parts    uint64
	// written is the revision of the last write of the history itself.
	written atomic.Uint64

	mu   sync.Mutex
	gate chan struct{}
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), record: newRecord(), gate: make(chan struct{}),
	}
	h.db = statedb.New(statedb.WithMetrics(&commits{statedb.NewExpVarMetrics(false), h.checkStatuses}))
	require.NoError(t, h.db.Start())
	t.Cleanup(func() { require.NoError(t, h.db.Stop()) })
	var err error
	h.table, err = statedb.NewTable(h.db, "rows", historyIndex)
	require.NoError(t, err)
	h.sets = h.one(3)
	if h.one(2) {
		h.write(func(wtxn statedb.WriteTxn) { h.markInit = h.table.RegisterInitializer(wtxn, "history") })
	} else {
		h.initialized.Store(true)
	}
	for i := range 1 + h.rng.IntN(2) {
		h.slots = append(h.slots, h.newSlot(i))
	}
	return h
}

// one returns true one time in n.
func (h *history) one(n int) bool { return h.rng.IntN(n) == 0 }

func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// String describes the setup of the history.
func (h *history) String() string {
	var texts []string
	for _, s := range h.slots {
		texts = append(texts, s.text)
	}
	return fmt.Sprintf("sets %t, %s", h.sets, strings.Join(texts, "; "))
}

func (h *history) write(f func(wtxn statedb.WriteTxn)) {
	wtxn := h.db.WriteTxn(h.table)
	f(wtxn)
	h.written.Store(h.table.Revision(wtxn))
	wtxn.Commit()
}

// put writes a row with a wish of the given kind for each reconciler.
func (h *history) put(wtxn statedb.WriteTxn, key uint64, kinds [2]wishKind) {
	row, _, found := h.table.Get(wtxn, historyIndex.Query(key))
	if found {
		row = row.Clone()
	} else {
		row = &historyRow{ID: key, Set: reconciler.NewStatusSet()}
	}
	number := 0
	for _, s := range h.slots {
		kind := kinds[s.index]
		if kind == kept && !found || s.beside {
			kind = wanted
		}
		kinds[s.index] = kind
		if kind == kept {
			h.rewrites.Store(true)
			continue
		}
		if number == 0 {
			number = h.record.number()
		}
		switch kind {
		case wanted:
			if !s.beside {
				s.set(row, statusFor(number))
			}
		case vouched:
			s.set(row, reconciler.StatusDone())
		case unset:
			s.set(row, reconciler.Status{})
		}
		row.Wishes[s.index] = number
	}
	_, _, err := h.table.Insert(wtxn, row)
	require.NoError(h, err)
	for _, s := range h.slots {
		if kinds[s.index] != kept {
			h.record.wish(s.index, key, number, kinds[s.index], h.table.Revision(wtxn))
		}
	}
}

// statusFor returns a status that asks for an operation: a new one, or for one of ten wishes one that another process has
// made.
func statusFor(number int) reconciler.Status {
	if number%10 > 0 {
		return reconciler.StatusPending()
	}
	number /= 10
	s := reconciler.Status{ID: 1 + uint64(number/4%3), UpdatedAt: time.Now()}
	s.Kind = [...]reconciler.StatusKind{status.KindPending, status.KindRefreshing, status.KindError, status.KindBlocked}[number%4]
	if text := "down"; !s.IsPendingOrRefreshing() {
		s.Error = &text
	}
	return s
}

var bothWanted = [2]wishKind{wanted, wanted}

func (h *history) remove(wtxn statedb.WriteTxn, key uint64) {
	_, found, err := h.table.Delete(wtxn, &historyRow{ID: key})
	require.NoError(h, err)
	if !found {
		return
	}
	number := h.record.number()
	for _, s := range h.slots {
		h.record.wish(s.index, key, number, deleted, h.table.Revision(wtxn))
	}
}

func (h *history) gateNow() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gate
}

// open releases the blocked operations.
func (h *history) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.gate)
	h.gate = make(chan struct{})
}

// part starts a goroutine that writes, with its own random source.
func (h *history) part(f func(rng *rand.Rand)) {
	h.parts++
	rng := rand.New(rand.NewPCG(h.seed, h.parts))
	h.writers.Go(func() { f(rng) })
}

// run runs the history: perhaps a flood, then random events, then the end.
func (h *history) run() {
	for _, s := range h.slots {
		s.start()
	}
	if h.one(6) {
		h.flood()
	}
	for range 10 + h.rng.IntN(25) {
		h.event()
		if h.one(3) {
			synctest.Wait()
		}
	}
	h.settle()
}

// settle ends a history, and checks (d), (e) and (f).
func (h *history) settle() {
	h.writers.Wait()
	if !h.initialized.Load() {
		h.initialize()
	}
	h.healed.Store(true)
	h.open()
	h.unlimit()
	// Stuck operations return, which may end a loop.
	for _, s := range h.slots {
		for i := 0; s.target.busy(); i++ {
			if i == 100 {
				h.record.violate("(d) the operations of %d do not come to an end", s.index)
				break
			}
			time.Sleep(10 * time.Second)
		}
	}
	synctest.Wait()
	for _, s := range h.slots {
		s.revive()
		s.resume()
	}
	h.unlimit()
	// Waits may be for later revisions.
	for range 4 {
		h.write(func(wtxn statedb.WriteTxn) { h.put(wtxn, 1, bothWanted) })
	}
	// What failed for good is run when it is requested again, or by another loop.
	restart := h.one(2)
	for range 2 {
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, s := range h.slots {
			if restart {
				s.stop()
				s.start()
				h.unlimit()
				// Its first resync may need an approval.
				time.Sleep(time.Second)
				synctest.Wait()
			} else {
				h.write(s.askAgain)
			}
			s.running.loop.ApproveResync()
		}
	}
	time.Sleep(time.Second)
	synctest.Wait()
	for _, s := range h.slots {
		s.checkConverged(false)
		s.checkEmpty()
		s.running.loop.Prune()
	}
	time.Sleep(time.Second)
	synctest.Wait()
	for _, s := range h.slots {
		s.running.loop.ApproveResync()
	}
	time.Sleep(time.Second)
	synctest.Wait()
	for _, s := range h.slots {
		s.checkConverged(true)
	}
	if len(h.record.violations) == 0 {
		h.checkIdle()
		for _, s := range h.slots {
			s.checkRefreshOfAll()
			s.checkConverged(true)
			s.checkEmpty()
		}
	}
	for _, s := range h.slots {
		s.stop()
	}
	h.checkUnwritten()
}

// unlimit turns off periodic refreshes and removes all limiters.
func (h *history) unlimit() {
	for _, s := range h.slots {
		require.NoError(h, s.running.loop.Reconfigure(func(set *reconciler.Settings) {
			set.RefreshInterval, set.RefreshLimiter, set.OperationLimiter, set.RoundLimiter = 0, nil, nil, nil
		}))
	}
}

func (h *history) initialize() {
	h.initialized.Store(true)
	h.write(h.markInit)
}
