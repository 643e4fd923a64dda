// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package stateful reconciles objects by comparing the state that they want with the state
// that was applied last, and applying the difference. It is for targets that cannot be told
// "be like this", only "add this" and "remove that", such as the records of a name server or
// the addresses of a device.
//
// A program implements [StatefulReconciler]: it says what state a row wants, and applies
// differences. The ready-made [SetDiff], [KeyDiff] and [MapDiff] compare the states, when they
// are embedded. The state that was applied last is in an annotation of the row, as JSON,
// written in the same commit as the status. [Configure] returns a configuration with it, of which
// [reconciler.New] and [reconciler.RegisterConfig] make a loop.
//
// # What the target may hold
//
// An attempt that failed half way may have left anything behind, and an outcome is lost if the
// row was changed or deleted while the operation ran. The annotation tells of neither. So the
// reconciler remembers, for as long as the program runs, what it applied last to each object
// and what it has tried since, and compares with all of that: what any of it may have left
// behind is removed, and what any of it may have removed is added. That takes a few words of
// memory for each object, and for one that fails the different states that were tried since its
// last success, up to 32: before one more is tried, everything that the target may have of the
// object is removed. What was deleted is forgotten, but for objects that came with an annotation
// of another process: of these a few words stay. For the same reason
// operations have to be repeatable: adding what is there already and removing what is gone are
// no errors, and updating what is missing adds it.
//
// What is not remembered after a restart, or was changed in the target by somebody else, is found by
// looking at the target: see [StateObserver]. The annotations are as lost as the table is, if the
// program does not keep its rows elsewhere: see [StateStore].
//
// # Annotations
//
// A program that changes a row keeps its annotations, as a clone of the row does. Beside the state
// there is a second annotation, whose key ends in ".epoch": it tells the states that this
// reconciler has applied from those of a former process. So a clone of a row that was deleted, and
// a copy of a row under another name, are applied in full, although their annotations say that the
// target has everything. What a former process applied is believed, unless the object has been
// deleted since this one began.
package stateful
