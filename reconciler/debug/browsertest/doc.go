// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package browsertest has the tests of package debug in a real browser: Debian's chromium,
// without a window. They have a module of their own, since the library links no browser
// driver. They fail where there is no chromium.
package browsertest
