// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package status defines the outcome of reconciling an object: [Status] for one reconciler, [Set] for several, an index
// that finds objects by [Kind], and [WaitForReconciliation], which waits for a whole table. It does not know the loop, so
// packages that define objects need not import that.
package status
