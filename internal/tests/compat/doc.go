// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package compat keeps docs/COMPATIBILITY.md true. Its tests read the tables of that page, and
// check that each name of the reconcilers that programs come from has a row, that what a row
// names here exists, and that a test or an Example uses it.
package compat
