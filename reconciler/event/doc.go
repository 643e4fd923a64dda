// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package event records events about objects for people: that a resource was created, that it could not be
// deleted, that a person has to decide. The status of a row and the journal say how far the row is and which
// operations ran. An event says what a person should know in addition.
//
// An operation passes an [Event] to a [Recorder], with the object, which is any row that embeds [object.Meta].
// The recorder decides where the event can be read:
//
//	NewSlogRecorder(log)                 in the log: warnings as warnings, others as information
//	TableRecorder, from Cell or          in the table "events", which db/show events prints
//	  NewTableRecorder
//	NewMultiRecorder(a, b)               in several places
//	NewThrottledRecorder(to, throttle)   limits the warnings of one object for one reason,
//	                                     and counts the others
//	NewNopRecorder()                     nowhere
//
// [Recorder].WithAnnotations returns a recorder that adds annotations to all its events, above all their
// source: see [SourceAnnotation].
//
// Events are for people. They are folded (repetitions share a row of the table), throttled, and lost with the
// process. A program must not depend on them: what a program needs belongs in the row. Package managed records
// its events itself.
//
// # In a hive
//
// [Cell] provides the table and two recorders: a throttled [Recorder] to the table, and the [TableRecorder]
// behind it, from which a program can build its own, such as one that also logs. [NewCell] takes other limits.
//
// In the shell, db/show events prints the table, and db/list -i object events NAMESPACE/NAME the events of one
// object (NAME alone if it has no namespace).
//
// # The table
//
//   - Events of one source and object with the same type, reason and message are one row: see [Row]. It
//     has a count, the times of the first and the last event, and the annotations of the last.
//   - The table has at most 1000 rows. If there are more, the rows that were not repeated for the
//     longest time are deleted.
//   - A goroutine writes the table some milliseconds later. Event never waits for a transaction.
//
// # Throttling
//
// A throttle passes a burst of warnings of one object for one reason, 5 by default, and then a limited rate,
// one in ten seconds by default. The next warning that passes has the number of those that were held back: a
// count of "6+15" in the table means 6 recorded and 15 held back. Events of other types always pass.
//
// # Long texts
//
// Long texts are cut, and end with the number of bytes left out: a message to 1 KiB in the table and 16 KiB in
// the log, a name to 1 KiB. If the annotations of an event exceed 16 KiB together, some are left out, and the
// annotation "left out" has their number. See [MaxText].
//
// # Coming from Kubernetes
//
//	there                                      here
//	-----                                      ----
//	mgr.GetEventRecorderFor("app")             a Recorder, from Cell, NewTableRecorder or NewSlogRecorder
//	the component of the recorder              recorder.WithAnnotations(SourceAnnotation, "app")
//	recorder.Event(obj, "Warning",             recorder.Event(row, Warning("CannotPull", err))
//	  "CannotPull", message)
//	event.Normal(reason, message, "k", "v"),   the same
//	  event.Warning(reason, err)
//	AnnotatedEventf                            annotations of the event, or of the recorder
//	counts of repeated events (series)         a row with a count and two times
//	the spam filter of the broadcaster         NewThrottledRecorder
//	kubectl get events, kubectl describe       db/show events, db/list -i object events NAMESPACE/NAME
//	events are deleted after an hour           the latest 1000 rows are kept
//	a fake recorder in tests                   any type with the two methods; NewNopRecorder
package event
