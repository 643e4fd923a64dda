// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package errorclass counts failures by class, and decides which of them are logged: one of each
// class from time to time. What it remembers is bounded, whatever fails.
package errorclass
