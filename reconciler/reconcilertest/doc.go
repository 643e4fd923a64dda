// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package reconcilertest runs reconcilers in tests, in virtual time.
//
// [Run] runs a test in a bubble of testing/synctest: hours pass in an instant, and a retry comes
// when the backoff says. The test gets an [Env], which is a database with a table. It starts
// reconcilers of the table with [Env.Start], changes rows with [Env.Insert] and [Env.Delete], waits
// with [Env.Pass] or [Env.WaitApplied], and compares statuses and target. What was started is
// stopped when the test ends, and the test fails if that returns an error.
//
// [Target] is a fake target, for tests of what is around the operations: rows, settings,
// triggers. It records calls and returns the errors that the test plans. [Health] records what
// reconcilers report.
package reconcilertest
