// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package harness helps the tests of this module, in addition to package reconcilertest: a row type and an Env of its
// table, a check that operations do not overlap, and a runner for scripts.
package harness
