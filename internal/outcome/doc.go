// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package outcome interprets the error that an operation returned: what it says comes next (see [Directive]), whether it is
// a failure (see [Classify]), and its class (see [Class]). It also cuts texts that are too long to keep.
//
// The package has functions and immutable values only, which are safe from any goroutine. It calls methods of the user's
// errors and objects. It never decides when an operation is run again: that is for the core.
package outcome
