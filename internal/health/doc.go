// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package health tells a hive's health how a loop is: when that is news, in short and with a bounded
// number of examples. A watchdog names a call that the loop itself has been in for long.
package health
