// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package kernel applies the tables of package desired to the Linux kernel. It holds the operations of netagent's
// reconcilers, and is the only package that changes a network namespace: that of the calling thread, which it treats as its
// own. Its operations list everything there except what the kernel itself made, and what has no row is removed.
//
// Every Update reads first and changes only what differs; every Delete of a missing object succeeds. On other systems than
// Linux the package is empty.
package kernel
