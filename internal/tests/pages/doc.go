// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package pages has the programs of which the pages in docs show parts.
package pages
