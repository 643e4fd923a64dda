// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package stateful reconciles rows by comparing the state that a row wants with the state that was applied last, and
// applying the difference. It is for targets that have no "set the state" operation, only "add this" and "remove that",
// such as the records of a name server or the ports of a firewall.
//
// A program implements [StatefulReconciler]: it returns the state that a row wants, and applies differences. [SetDiff] and
// [MapDiff] implement the comparison when they are embedded. The state that was applied last is kept in an annotation of
// the row, as JSON, and is written in the same commit as the status.
//
// [Configure] returns a configuration with the operations, for [reconciler.New] or, in a hive,
// [reconciler.RegisterConfig]: the loop has the retries, and its options apply. Coming from the stateful reconciler of an
// operator? docs/COMPATIBILITY.md compares the names.
//
// # Failed attempts
//
// A failed attempt may have applied any part of a difference, and the outcome of a success is lost if the row is changed
// or deleted while the operation runs. The annotation shows neither. So the reconciler remembers, for each object, the
// states that the target may be in: the one it applied last and those it has tried since. The annotation is read once, for
// an object that is not remembered.
//
//   - The next attempt compares each remembered state with the wanted one, and applies each difference. So it removes what
//     any of them may have left behind, and adds what any of them may have removed.
//   - So a change may be applied twice. ApplyOperations must accept that: adding an item that exists and removing one that
//     is gone are no errors, and updating a missing item adds it.
//   - An object needs the memory of its state. A failing object also needs its tried states, at most 32. Before one more is
//     tried, everything that the target may have of the object is removed.
//   - A deleted object is forgotten. A few words stay if its row had an annotation that another process wrote.
//   - A restart forgets the tried states. A [StateObserver] finds what they left behind.
//   - An annotation that cannot be read counts as a first reconciliation; log and journal report it.
//
// # Drift and restarts
//
// Only differences to the state applied last are repaired, unless there is a [StateObserver]. Then the state of the target
// is part of the comparison at each attempt, at each refresh, and when a [Requeuer] asks.
//
// A restart empties the table, with the annotations. Items that are removed from a row in the meantime then stay in the
// target, unless there is a [StateStore], with whose states the first reconciliation compares. A row that does not come
// back is not reconciled: for such rows set a Lister that lists a row for each stored state, with the stored text as its
// annotation.
//
// # Annotations
//
// A program that changes a row must keep its annotations, as a clone of the row does.
//
// A second annotation, whose key ends in ".epoch", marks the states that this process applied. So a clone of a deleted row
// is applied in full, and so is a copy of a row under another name, although their annotations say that the target has
// everything. A state that an earlier process applied is trusted, unless the object was deleted since this process began.
package stateful
