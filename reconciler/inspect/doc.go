// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package inspect describes running reconcilers as plain data, with JSON tags and text renderings,
// and finds them by name. It does not depend on the type of the reconciled objects, so commands,
// pages and collectors can use it.
//
// An [Inspector] reads a reconciler, a [Controller] also acts on it, and a [Registry] holds the
// running reconcilers of a program. Every reconciler.Loop is a Controller, and a [LoopController].
package inspect
