// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package kernel makes the Linux kernel have what the tables of package desired ask
// for: it is where a netagent's reconcilers end, and the only package that changes a
// network namespace.
//
// It works on the namespace of the thread that calls it, and takes that namespace
// for its own: whatever the tables do not ask for, prune removes, save for what the
// kernel made by itself.
//
// Every Update looks first and changes only what is different, so that it can be
// called as often as one likes; every Delete of what is not there succeeds. On other
// systems than Linux the package is empty.
package kernel
