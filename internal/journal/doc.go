// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package journal keeps the latest rounds of a reconciler and their operations, each in a ring, and
// the operations that failed for longer. An operation is kept in few bytes, with its object; its
// texts are made when somebody reads it.
package journal
