// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package programs contains programs written against github.com/cilium/statedb/reconciler v0.9.4, as its users write them:
// a hive, a table, an implementation of its interfaces, and assertions on the result. They must not import Statekeel.
//
// They are test files. A program runs in a testing/synctest bubble where time matters. It asserts final states, the order
// of the operations of each key, and that things happen within a generous virtual time, but not what only one
// implementation does. What must be equal to the byte goes into the transcript (see transcript), which package dropin
// compares.
package programs
