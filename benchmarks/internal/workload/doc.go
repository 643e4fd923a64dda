// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package workload holds the workloads, and what is measured of each. A workload drives a [subject.System]
// through one run in one process, returns figures, and checks itself: if the rows or calls are not as
// expected, the run returns an error and no figures.
package workload
