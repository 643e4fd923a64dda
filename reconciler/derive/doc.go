// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package derive keeps an output table equal to a function of one or several input tables. A reconciler then works on the
// output, which is an ordinary table. docs/derive.md has a program and more.
//
//   - [Each] derives any number of output rows from each input row.
//   - [Best] does so, too, and for each output key the input row with the lowest rank wins of those that want it.
//   - [EachOf] and [BestOf] join: the function looks up rows of further inputs for an input row.
//
// All return a [Derived], which runs until it is stopped, as a job of a hive ([Derived.AddTo]) or without one
// ([Derived.Run]). What it promises:
//
//   - Each snapshot of the inputs is derived as a whole, and none is older than the last. Rows are written before others
//     are deleted. So an output row that some input row wants all the time is never missing.
//   - A change of a row calls the function once a snapshot: for the row, or for the input rows that looked up a key which
//     the row has or had, and for no other.
//   - An output row that is equal to the derived one is not written.
//   - The output table belongs to the derivation: as soon as the inputs are initialised, rows that do not follow from them
//     are deleted, even those of other writers. At first that waits until no input row fails that was never derived, since they may
//     be its own. Statuses that reconcilers write into the rows are kept: see [Config].Merge.
//   - If the function or the rank fails or panics, the error is in health and Explain under the key of the input row, what
//     was derived from the row before stays in the output, and all other rows go on. The function is called again when the
//     row changes, or what it has looked up, or by [Derived.Retry].
//   - An output row that cannot be compared, merged, written or deleted is in error, and all others go on. It is compared
//     again when a row that wants it changes, every 10 s, and by [Derived.Retry].
//   - All rows wait for a function that hangs. After 10 s health and Explain name it.
//   - The output has an initialiser for each input; they end when all inputs are initialised and derived. So the output of
//     one derivation can be the input of another.
//   - No function of the program is called with a table locked, except those of the indexes, and Same and Merge for a row
//     of the output that another writer changes meanwhile. A write transaction of the output has at most 256 rows, and ends
//     after 5 ms.
//
// Beside the tables that takes about 245 bytes for each input row, if each wants one output row, two want the same, and
// keys have 8 bytes; plus the output rows that lose, and old versions of input rows that fail. A look-up of an input row
// costs at most 100 bytes if keys are short, and an input row with look-ups 110. With further inputs, the snapshot of the
// last round keeps what was replaced or deleted since in all tables of the database: 5 kB for each change far from others,
// and one more copy of the tables at most. While the derivation runs that is what a round takes, or 10 s; and all since it
// was paused or has ended, until [Derived.Close]. With a Registry, what rows no longer lead to is remembered until it is gone
// from the targets, 2 MB at most if keys are short: see inspect.Registry.InForce.
package derive
