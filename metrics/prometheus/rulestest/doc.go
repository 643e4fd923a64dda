// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package rulestest has no code but tests: of the dashboard and the alert rules of package
// prometheus, with the parser and the engine of Prometheus. It is a module of its own so
// that nobody who shows figures to Prometheus needs all that Prometheus does.
package rulestest
