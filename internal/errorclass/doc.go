// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package errorclass counts failures by class, and decides which are logged: one of each class from
// time to time. Its memory is bounded.
package errorclass
