// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package series runs workloads again and again and makes statistics of it: every run in a
// process of its own, one at a time, the contenders taking turns (A B C A B C), so that
// what drifts on the machine drifts for all of them alike.
package series
