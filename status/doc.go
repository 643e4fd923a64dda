// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package status says how far one object is on its way into the target: [Status]
// for one reconciler, [Set] for several, an index to find objects by [Kind], and
// [WaitForReconciliation] to wait for a whole table.
//
// It knows nothing of the reconciler loop, so that the packages that define objects
// need not import it.
package status
