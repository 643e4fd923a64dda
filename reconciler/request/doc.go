// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package request is the idiom of controllers on the loop of package reconciler: a
// [Reconciler] is handed requests, each of which names an object, and makes the world match
// what the tables say of that object.
//
// Reconciliation is level-based: a request says which object, never what happened to it.
// Reconcile reads the tables, and finds there what is wanted now, or that the object is
// gone. So any number of events may become one request, and a request may come without any
// event.
//
// Requests come from [Source]s: the table of the objects themselves ([For]), tables of what
// they own ([Owns]), other tables whose rows say something about them ([Watches]), each
// with predicates for what does not matter; and from [Controller.Add], for what is outside
// of any table.
//
// Below, each request is a row of a table of the controller's own, with the status of a
// reconciler, and a [reconciler.Loop] works on it: so retries, fairness, workers, breakers,
// pauses, Explain, metrics and the journal are those of the loop, and all its options are to
// be had. A key is never worked on twice at a time: what comes for it while it is worked on
// becomes one more run afterwards.
package request
