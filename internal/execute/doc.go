// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package execute calls the operations of a program: one at a time, in batches, or on workers. It bounds and measures the
// time of a call, and turns a panic into an error. It never retries an operation and never writes an outcome. The only
// rows that it writes are those of [Checkpoint].
//
//   - An [Executor] runs operations on the goroutine of its caller, which owns it: the loop's goroutine or that of a worker.
//   - A [Pool] runs jobs on workers, each with an Executor of its own. A job is one operation or a batch. The loop's
//     goroutine starts jobs and collects finished ones. The pool tracks which jobs are stuck.
//   - A [Scope] is in the context of each call. It is what the operation can reach while it runs: [Checkpoint], [Note], and
//     the functions of package running. Its methods are safe from any goroutine.
package execute
