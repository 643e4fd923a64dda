// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package outcome reads what an operation came back with: it searches the error for what it says
// comes next, classifies it, cuts texts that are too long, and tells failures apart by class.
package outcome
