// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package workload holds what the benchmarks do to a contender, and what they measure of
// it. A workload drives a [subject.System] through one run in one process, returns figures,
// and checks itself: a run whose rows or calls do not add up is an error, never a figure.
package workload
