// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

// Kind is what goes wrong at a point.
type Kind uint8

const (
	// Before is an error in place of the effect, After an error after it.
	Before Kind = iota
	After
	// Lost is success without the effect.
	Lost
	// Late is an error now, and the effect some seconds later.
	Late
	// Half carries out the first half of a batch, or lists the first object, and fails.
	Half
	// Timeout takes until the context ends, without the effect.
	Timeout
	// Panic panics in place of the effect.
	Panic
	// Cancelled calls with a context that has ended.
	Cancelled
	// KilledBefore and KilledAfter kill the program before or after the effect, and start it again. Rewritten
	// is KilledAfter with the next state written before the start.
	KilledBefore
	KilledAfter
	Rewritten
	// Lasting is an error in place of the effect, from here until all states are over.
	Lasting
	// Outside changes the target from outside before the effect.
	Outside
)

// names are the kinds as plans have them.
var names = [...]string{
	Before: "error", After: "error after the effect", Lost: "success without effect", Late: "late effect",
	Half: "half", Timeout: "timeout", Panic: "panic", Cancelled: "cancelled context",
	KilledBefore: "kill before", KilledAfter: "kill after", Rewritten: "kill and rewrite",
	Lasting: "lasting error", Outside: "change from outside",
}

func (k Kind) String() string { return names[k] }

// Names returns the names of all kinds.
func Names() []string { return names[:] }

// Class is what stands at a point. It decides which faults make sense there.
type Class uint8

const (
	// Operation is the call of an operation for one object.
	Operation Class = iota
	// Entry is one object of a batch, Batch the call with all of them.
	Entry
	Batch
	// Listing is a prune.
	Listing
	// Resync is a listing that is compared with the rows.
	Resync
	// Edge is a step of an operation.
	Edge
)

// Kinds returns the faults that make sense at a point, without [Outside].
func (c Class) Kinds() []Kind {
	switch c {
	case Entry:
		return []Kind{Before, After, Lost, Lasting}
	case Batch:
		return []Kind{Half, Timeout, Panic, Cancelled, KilledBefore, KilledAfter, Rewritten}
	case Listing:
		return []Kind{Before, After, Half, Lost, Lasting, Panic, Cancelled, KilledBefore, KilledAfter}
	case Resync:
		return []Kind{Before, After, Half, Lost, Lasting, Timeout, Panic, Cancelled, KilledBefore, KilledAfter, Rewritten}
	case Edge:
		return []Kind{Before, After, Lost, Late, Timeout, Panic, KilledBefore, KilledAfter, Rewritten, Lasting}
	default:
		return []Kind{Before, After, Lost, Timeout, Panic, Cancelled, KilledBefore, KilledAfter, Rewritten, Lasting}
	}
}
