// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package stateful compares the state that a row wants with the state that was applied last, and applies the difference. It
// is for targets that have no "set the state" operation, only "add this" and "remove that", such as the records of a name
// server or the ports of a firewall.
//
// A program implements [StatefulReconciler]; [SetDiff] and [MapDiff], embedded, implement the comparison. [Configure]
// returns a configuration for [reconciler.New] or, in a hive, [reconciler.RegisterConfig]: the loop has the retries, and
// its options apply. The state that was applied last is an annotation of the row, as JSON, written in the same commit as
// the status. docs/COMPATIBILITY.md compares the names with those of an operator's stateful reconciler.
//
// # Failed attempts
//
// A failed attempt may have applied any part of a difference, and the outcome of a success is lost if the row is changed
// or deleted while the operation runs. The annotation shows neither. So the reconciler remembers, for each object, the
// state that it applied last and those it has tried since. It reads the annotation of an object that it does not remember.
//
//   - The next attempt compares each remembered state with the wanted one, and applies each difference: it removes what
//     any of them may have left behind, and adds what any may have removed.
//   - So a change may be applied twice: adding an item that exists and removing one that is gone must be no errors, and
//     updating a missing item must add it.
//   - An object needs the memory of its state, a failing one also that of its tried states, at most 32. Before one more is
//     tried, everything that the target may have of the object is removed.
//   - A deleted object is forgotten. A few words stay if its row had an annotation that another process wrote.
//   - A restart forgets the tried states. A [StateObserver] finds what they left behind, and other drift.
//
// # Restarts and copies
//
// A restart empties the table, with the annotations: see [StateStore]. A row that does not come back is not reconciled: for
// such rows set a Lister that lists a row for each stored state, with the stored text as its annotation.
//
// A program that changes a row must keep its annotations, as a clone of the row does. A row that is inserted again, or
// copied, is applied in full, whatever its annotations say.
package stateful
