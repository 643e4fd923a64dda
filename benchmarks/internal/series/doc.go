// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package series runs workloads repeatedly and computes statistics. Every run is a process of its own, one
// at a time, and the contenders take turns (A B C A B C), so that slow changes of the machine affect all
// contenders alike.
package series
