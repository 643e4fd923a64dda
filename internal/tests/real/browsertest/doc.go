// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package browsertest tests package debug in a real browser: Debian's chromium, without a window. The tests fail if
// chromium is not installed. They are not in the module of the library, which needs no browser driver.
package browsertest
