// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package derive keeps an output table equal to a function of one or several input tables. A reconciler then works on the
// output, which is an ordinary table. docs/derive.md has a program and more.
//
// [Each] derives output rows from each input row. With [Best] the input row with the lowest rank wins an output key. With
// [EachOf] and [BestOf] the function looks up rows of further inputs, too. All return a [Derived], which says how much
// memory it takes, and runs as a job of a hive ([Derived.AddTo]) or without one ([Derived.Run]). It promises:
//
//   - Each snapshot of the inputs is derived as a whole, and none is older than the last. Rows are written before others
//     are deleted. So an output row that some input row wants all the time is never missing.
//   - A change of a row calls the function once a snapshot: for the row, or for the input rows that looked up a key which
//     the row has or had, and for no other.
//   - An output row that is equal to the derived one is not written.
//   - The output table belongs to the derivation: when the inputs are initialised, rows that do not follow from them are
//     deleted, even those of other writers. At first that waits until no input row fails that was never derived, since they
//     may be its own. Statuses that reconcilers write into the rows are kept: see [Config].Merge.
//   - If the function or the rank fails or panics, the error is in health and Explain under the key of the input row, and
//     what was derived from the row before stays. The function is called again when the row changes, or what it has looked
//     up. An output row that cannot be compared, merged, written or deleted is in error, and compared again when a row that
//     wants it changes, and every 10 s. All other rows go on. [Derived.Retry] tries at once.
//   - All rows wait for a function that hangs. After 10 s health and Explain name it.
//   - The output has an initialiser for each input; they end when all inputs are initialised and derived. So the output of
//     one derivation can be the input of another.
//   - No function of the program is called with a table locked, except those of the indexes, and Same and Merge for a row
//     of the output that another writer changes meanwhile. A write transaction has at most 256 rows, and ends after 5 ms.
package derive
