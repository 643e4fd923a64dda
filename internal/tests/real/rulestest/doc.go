// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package rulestest tests the dashboard and the alert rules of package prometheus with the parser and the engine of
// Prometheus. It is not in the module of that package, whose programs need not link these.
package rulestest
