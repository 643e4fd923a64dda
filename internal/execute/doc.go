// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package execute calls the operations of a program: one at a time, in batches, or on workers. It
// bounds the time of a call, measures it, and turns a panic into an error. It knows tasks, which
// say what to call with and what came back, and nothing of retries and statuses.
//
//   - [Executor] runs tasks on the goroutine of its caller,
//   - [Pool] runs jobs, which are tasks that were handed over together, on workers; it knows
//     which are stuck, and which of these were left behind,
//   - the scope in the context of a call is for what an operation may do meanwhile: [Checkpoint],
//     [Note], and what package running has.
package execute
