// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package sandbox runs the program again in a user and a network namespace of its own. There it is root, but only over
// those two: it needs no privilege to start, and does not affect the host. Files, processes and users are the same inside
// and outside. On other systems than Linux the package is empty.
package sandbox
