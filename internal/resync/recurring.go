// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"fmt"
	"hash/maphash"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

const (
	// maxRepaired bounds the keys that are remembered, recurs is how many repairs in a row of a key have not held when
	// that is reported.
	maxRepaired = 1024
	recurs      = 3
)

// reasons are why a repair may not hold.
const reasons = "another program changes it, Config.Equal compares what Update does not write, or the target lists it under another key"

// repaired is a key that was repaired, or deleted as an orphan, since a resync had found it wrong.
type repaired struct {
	name string
	// again: an operation has succeeded since the last result. wrong is what that result found, times how many
	// results in a row have found it wrong after a success.
	again bool
	wrong string
	times int
}

// noteRepair remembers that an operation of a key has ended. repair: a resync has asked for it.
func (r *Resync[Obj]) noteRepair(op *core.Operation[Obj], key []byte, repair bool) {
	k := r.repaired[string(key)]
	if k == nil && repair && len(r.repaired) < maxRepaired {
		if r.repaired == nil {
			r.repaired = map[string]*repaired{}
		}
		k = &repaired{name: r.cfg.Rows.Name(op.Row)}
		r.repaired[string(key)] = k
	}
	if k != nil {
		k.again = k.again || op.Outcome.Succeeded()
	}
}

// hashRepaired returns the remembered keys by the hashes of a listing that is about to be judged.
func (r *Resync[Obj]) hashRepaired(l *listing[Obj]) map[uint64]string {
	of := make(map[uint64]string, len(r.repaired))
	for key, k := range r.repaired {
		of[maphash.String(l.seed, key)], k.wrong = key, ""
	}
	return of
}

// judgeRepaired counts the repairs that have not held, and forgets the keys whose repairs have.
func (r *Resync[Obj]) judgeRepaired(l *listing[Obj]) {
	var first *repaired
	n := 0
	for hash, key := range l.verdict.repaired {
		k := r.repaired[key]
		if kind, wrong := l.found.repairs[hash]; wrong {
			k.wrong = kind
		}
		switch {
		case l.isTouched(hash):
		case k.wrong == "":
			delete(r.repaired, key)
			continue
		case k.again:
			k.again = false
			k.times++
		}
		if k.times < recurs {
			continue
		}
		if n++; first == nil || k.name < first.name {
			first = k
		}
	}
	r.recurring = ""
	if n > 0 {
		r.recurring = fmt.Sprintf("resyncs repair %d object(s) again and again, such as %s: %s", n, first.name, reasons)
	}
}

// Recurs returns a line about a key that resyncs repair again and again; empty if they do not.
func (r *Resync[Obj]) Recurs(key []byte) string {
	k := r.repaired[string(key)]
	switch {
	case k == nil || k.times < recurs:
		return ""
	case k.wrong == inspect.Orphan:
		return fmt.Sprintf("the target listed it again after each of its last %d deletions: %s", k.times, reasons)
	}
	return fmt.Sprintf("it was different or missing again after each of its last %d repairs: %s", k.times, reasons)
}
