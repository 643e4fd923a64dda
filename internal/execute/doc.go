// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package execute calls the operations of a program: one at a time, in batches, or on workers. It bounds and measures the
// time of a call, and turns a panic into an error. It never retries an operation and never writes an outcome. The only rows
// that it writes are those of [Checkpoint].
//
//   - An [Executor] runs operations on the goroutine of its owner: the loop's or that of a worker.
//   - A [Pool] runs jobs, each an operation or a batch, on workers with an Executor each, and tracks which are stuck. The
//     loop's goroutine starts jobs and collects finished ones.
//   - A [Scope], in the context of each call, is what the operation can reach while it runs: [Checkpoint], [Note], and the
//     functions of package running. Its methods are safe from any goroutine.
package execute
