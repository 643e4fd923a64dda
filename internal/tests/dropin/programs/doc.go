// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package programs holds programs written against
// github.com/cilium/statedb/reconciler v0.8.3, the way its users write them: a hive,
// a table, an implementation of its interfaces, and assertions on what becomes of them.
//
// They are test files, so that "go test" here runs them as written, against that
// package. The driver in the parent folder runs them a second time with the import
// path changed. Nothing in here may import Statekeel.
//
// A program runs in a testing/synctest bubble wherever time matters, so the waits in
// it are exact and free. It asserts final states, the order of operations of each key,
// and that things happen within a generous (virtual) time; not the flaws of one
// implementation, see the table in the parent folder's doc.go. What should be the same
// to the last byte goes into the transcript (see transcript) and is compared by the
// driver.
package programs
