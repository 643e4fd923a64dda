// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package event records events about objects for people: that a resource was created, that it could not be deleted, that a
// person has to decide.
//
// An operation passes an [Event] to a [Recorder], with the object, which is any row that embeds [object.Meta].
// [NewSlogRecorder] records in the log, [NewNopRecorder] nowhere, a [TableRecorder] in the table "events": db/show events
// prints it in the shell, and db/list -i object events NAMESPACE/NAME the events of one object (NAME alone if it has no
// namespace). In a hive, [Cell] provides the table and its recorder.
//
// The events of one source and object with the same type and reason are one row: see [Row]. The table has at most 1000
// rows: those go that were not repeated for the longest time. Events are cut (see [MaxText]), and lost with the process:
// what a program needs belongs in its rows.
package event
