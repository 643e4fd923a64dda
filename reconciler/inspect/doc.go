// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package inspect has what a reconciler tells about itself, as plain data with JSON tags and as
// text, and who may look and act: an [Inspector] tells, a [Controller] acts as well, and a
// [Registry] has those of a program. Commands, pages and collectors use it, and do not depend on
// the type of the objects. reconciler.Loop is a Controller.
package inspect
