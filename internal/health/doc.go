// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package health reports the condition of a loop to hive's health: when it changes, in short and
// with a bounded number of examples. A watchdog reports a call that the loop itself has been in for
// too long.
package health
