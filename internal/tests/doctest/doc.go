// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package doctest reads the programs that stand in the project's pages, so that a test
// can compile and run them: what a page shows is what works.
//
// A block of Go whose first line names a file, "// main.go" or "// batch/main.go",
// begins that file. Each following block of Go continues it, until one begins another
// file. So a page can stop in the middle of a file and say something about it. The files
// of a folder are a [Program].
//
// A block marked "text" right behind a block of Go is what that program prints. Other
// blocks, marked with another word or with none, are not looked at.
package doctest
