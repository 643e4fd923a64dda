// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package reconcilertest runs reconcilers in tests, in virtual time.
//
// [Run] runs a test in a bubble of testing/synctest: hours pass in an instant, and a retry runs exactly when its backoff
// ends. The test gets an [Env], a database with a table. The reconcilers stop when the test ends; it fails if one of them
// returns an error.
//
// [Check] looks for bugs in operations, and in what stands between rows and a target: it goes all ways through a few states
// of one or more tables, lets calls and steps go wrong, and compares the target with that of a fresh start.
//
// [Target] is a fake target, for tests of rows, settings and triggers rather than operations. It records calls and returns
// the errors that the test plans. [Health] records what reconcilers report.
package reconcilertest
