// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package report renders the results of a series: as text, as lines of JSON, and as a Markdown page with a
// chart and data files.
package report
