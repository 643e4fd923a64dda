// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"sync"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/ring"
)

// Reason says why a round ran.
type Reason string

const (
	// ReasonStart: the reconciler started.
	ReasonStart Reason = "start"
	// ReasonChange: the table changed.
	ReasonChange Reason = "change"
	// ReasonDue: a retry, or what else waits for a clock, was due.
	ReasonDue Reason = "due"
	// ReasonReleased: what an object was blocked on happened.
	ReasonReleased Reason = "released"
	// ReasonMore: the round before left work behind.
	ReasonMore Reason = "more"
	// ReasonPrune: a prune was due.
	ReasonPrune Reason = "prune"
	// ReasonPruneCall: [Reconciler].Prune was called.
	ReasonPruneCall Reason = "prune-call"
	// ReasonInitialized: the table's initialisers finished.
	ReasonInitialized Reason = "initialized"
	// ReasonLanded: a worker finished an operation.
	ReasonLanded Reason = "landed"
	// ReasonStuck: an operation ignored its deadline.
	ReasonStuck Reason = "stuck"
	// ReasonCall: somebody changed a setting, paused or resumed, or asked a question.
	ReasonCall Reason = "call"
	// ReasonStop: the reconciler is being stopped.
	ReasonStop Reason = "stop"
)

// Round is the record of one pass of the loop that had something to do.
type Round struct {
	// Sequence counts the rounds of the reconciler from 1.
	Sequence uint64
	// Reason is why the loop woke up.
	Reason Reason
	// Started is when the round's snapshot was taken; Took is how long it was
	// until everything was committed.
	Started time.Time
	Took    time.Duration

	// Changes and Waited are what was planned: objects that changed, and objects
	// that had waited for a retry, a release or a time. Refreshes are those of the
	// changes that were marked for a refresh.
	Changes, Waited, Refreshes int
	// Returned is how much of the plan was left to the next round.
	Returned int

	// Operations are what was run, in that order, or what workers had finished when
	// the round began. Those that the journal has forgotten are missing: the first ones, of
	// which it keeps the failures for longer.
	Operations []OperationRecord

	// Written is the number of statuses that were written, Lost that of the
	// outcomes that were not, since the object had changed or was deleted, and
	// Conflicts that of the statuses written onto an object that another
	// reconciler had written meanwhile. CommitTook is how long that took,
	// waiting for the table included; zero if there was nothing to write.
	Written, Lost, Conflicts int
	CommitTook               time.Duration

	// Prune is set if the round pruned.
	Prune *PruneRecord
}

// OperationRecord is the record of one operation.
type OperationRecord struct {
	// Operation is OpUpdate or OpDelete.
	Operation string
	// Key is the object's primary key, Revision that of the version applied, or of
	// the deletion.
	Key      index.Key
	Revision statedb.Revision
	// Attempt counts from 1, and starts anew after a success.
	Attempt int
	// Result is "done", "failed", "terminal", "blocked" or "requeue".
	Result string
	// Error is the error's text, or the reason of a block.
	Error string
	// Note is what the operation said of itself with [Note]; empty if nothing.
	Note string
	// Cause is why it was run.
	Cause Cause
	// Lost: the object changed while the operation ran, so that the change, not
	// this result, says what comes next. Conflict: another reconciler had written the
	// object, and the status was added to that.
	Lost, Conflict bool
	// Took is how long the operation, or the batch that it was in, took.
	Took time.Duration
}

// PruneRecord is the record of a prune or a sweep.
type PruneRecord struct {
	// Error is the error's text; empty if the prune succeeded.
	Error string
	Took  time.Duration
	// Listed and Swept are those of a sweep (see [Sweeper]): how many objects were
	// listed, and of how many the deletion began with it, in one of the next rounds.
	Listed, Swept int
}

// operationEntry is an OperationRecord as it is kept: the key is made when somebody
// reads it.
type operationEntry[Obj any] struct {
	object   Obj
	revision statedb.Revision
	took     time.Duration
	text     *string
	note     *string
	attempt  int32
	result   core.Kind
	cause    core.Cause
	deleted  bool
	lost     bool
	conflict bool
}

type roundEntry struct {
	Round
	firstOperation uint64
}

// journal keeps the latest rounds. The loop locks it once a round; readers need not
// wait for the loop, which may be stuck in the very operation that they ask about.
type journal[Obj any] struct {
	keyOf func(Obj) index.Key

	mu         sync.Mutex
	rounds     *ring.Ring[roundEntry]
	operations *ring.Ring[operationEntry[Obj]]
	// failures has those that failed, also of what the rings have forgotten.
	failures failures[Obj]
}

func newJournal[Obj any](rounds, operations int, keyOf func(Obj) index.Key) *journal[Obj] {
	return &journal[Obj]{
		keyOf:      keyOf,
		rounds:     ring.New[roundEntry](rounds),
		operations: ring.New[operationEntry[Obj]](operations),
		failures:   failures[Obj]{most: operations},
	}
}

// add records a round. Its operations are taken from tasks and attempts, not from r.
func (j *journal[Obj]) add(r Round, tasks []execute.Task[Obj], attempts []ledger.Attempt[Obj]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := j.rounds.Next()
	if entry == nil {
		return
	}
	*entry = roundEntry{Round: r, firstOperation: j.operations.Added()}
	for i := range tasks {
		t, a := &tasks[i], &attempts[i]
		slot := j.operations.Next()
		if slot == nil {
			return
		}
		*slot = operationEntry[Obj]{
			object: t.Object, revision: t.Revision, took: t.Took, text: a.Text, note: t.Note,
			attempt: int32(t.Attempt), result: a.Kind, deleted: t.Deleted, lost: a.Lost,
			cause: a.Cause, conflict: a.Conflict,
		}
		if a.HasFailed() {
			j.failures.add(placed[Obj]{*slot, j.operations.Added() - 1, r.Sequence, r.Started})
		}
	}
}

// snapshot returns the rounds that are still known, the oldest first.
func (j *journal[Obj]) snapshot() []Round {
	j.mu.Lock()
	defer j.mu.Unlock()
	first, end := j.rounds.First(), j.rounds.Added()
	rounds := make([]Round, 0, end-first)
	for n := first; n < end; n++ {
		entry, lastOperation := j.rounds.At(n), j.operations.Added()
		if n+1 < end {
			lastOperation = j.rounds.At(n + 1).firstOperation
		}
		entry.Operations = j.records(entry.firstOperation, lastOperation)
		rounds = append(rounds, entry.Round)
	}
	return rounds
}

// records returns the operations numbered from first to before end that are still
// known.
func (j *journal[Obj]) records(first, end uint64) []OperationRecord {
	var records []OperationRecord
	kept := j.failures.from(first, min(end, j.operations.First()))
	for i := range kept {
		records = append(records, j.record(&kept[i].operationEntry))
	}
	for n := max(first, j.operations.First()); n < end; n++ {
		op := j.operations.At(n)
		records = append(records, j.record(&op))
	}
	return records
}

func (j *journal[Obj]) record(op *operationEntry[Obj]) OperationRecord {
	record := OperationRecord{
		Operation: OpUpdate,
		Key:       j.keyOf(op.object),
		Revision:  op.revision,
		Attempt:   int(op.attempt),
		Result:    op.result.String(),
		Cause:     Cause(op.cause.String()),
		Lost:      op.lost,
		Conflict:  op.conflict,
		Took:      op.took,
	}
	if op.deleted {
		record.Operation = OpDelete
	}
	if op.text != nil {
		record.Error = *op.text
	}
	if op.note != nil {
		record.Note = *op.note
	}
	return record
}

// visit calls yield with the operations that are still known, the latest first, until it returns
// false. old: operations that came after this one are forgotten.
func (j *journal[Obj]) visit(yield func(op *placed[Obj], old bool) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	end := j.operations.Added()
	for n := j.rounds.Added(); n > j.rounds.First(); n-- {
		round := j.rounds.At(n - 1)
		for ; end > max(round.firstOperation, j.operations.First()); end-- {
			if !yield(&placed[Obj]{j.operations.At(end - 1), end - 1, round.Sequence, round.Started}, false) {
				return
			}
		}
	}
	kept := j.failures.from(0, end)
	for i := len(kept) - 1; i >= 0; i-- {
		if !yield(&kept[i], true) {
			return
		}
	}
}

// Journal returns the latest rounds that had something to do, the oldest first: as
// many as [WithJournal] keeps. Safe from any goroutine; it does not wait for a running
// operation. The cost is that of what it returns.
func (l *Loop[Obj]) Journal() []Round { return l.journal.snapshot() }
