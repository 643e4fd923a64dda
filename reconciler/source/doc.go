// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package source puts desired state that comes from elsewhere, such as a store, a file or a Kubernetes API, into a statedb
// table. A [Sink] takes full lists ([Sink.Replace]) and single changes ([Sink.Apply]):
//
//   - A row that is as the source wants it is not written. A list of 100,000 unchanged objects makes no operation of a
//     reconciler, and does not lock the table.
//   - Several sources can have rows in one table ([Config].Owner). None removes or overwrites a row of another.
//   - The table is locked for a few milliseconds at a time.
//   - An object in error is rejected, and nothing else is.
//   - The table is initialised when the first full list is in, so a reconciler does not prune before.
//   - Nothing is removed because the source is away, nor, without [Config].AllowEmpty, because its list is empty.
//
// If rows carry a status, set [Config].Same, which ignores it, and [Config].Merge, which sets it to Pending: otherwise each
// full list writes every row, and each is applied again. New rows are written as they are given, so their status is
// Pending, too.
//
// In the table <table>-inputs each source has a row with its revision that the table includes (Input), and the revision of
// the table that includes it (Output), written in the transaction of the last rows. What the source wanted at Input has
// been applied when the reconciler has attempted everything up to Output, and nothing is failing, blocked or rejected;
// except for what the source deleted while the program was down, which a prune or a resync removes.
package source
