// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package observe reads the changes of a table and hands them to the core, as many as there is
// room for. It has two cursors. The main cursor reads every change, one snapshot of the table after
// the other. The catch-up cursor exists while the target is slow and changes pile up: it reads what
// is newer than the main cursor's snapshot.
package observe
