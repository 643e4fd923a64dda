// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package inspect describes running reconcilers as plain data, with JSON tags and text renderings, and finds them by name.
// It does not depend on the type of the reconciled objects, so commands, pages and collectors can use it.
//
// An [Inspector] reads a reconciler, and a [Controller] also acts on it: a derivation of package derive is one. Every
// reconciler.Loop is a [LoopController], too. A [Source] fills a table. A [Registry] holds those of a program.
package inspect
