// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package compat maps the names of other reconcilers to the names of this module, in one file for each system, and writes
// the map as docs/COMPATIBILITY.md. The tests check that every name of a system (those in testdata) is mapped, that the
// names here exist, that a test or an Example uses them, and that the page is current. To write the page again:
//
//	go test ./internal/tests/compat -update
package compat
