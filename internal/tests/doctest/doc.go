// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package doctest reads the programs in the Markdown files of the repository. Its tests compile and run them, and check
// links, the references to pages in Go comments, and the list of dependencies.
//
// A block of Go whose first line names a file, "// main.go" or "// batch/main.go", begins that file. Each following block
// of Go continues it, until another begins a file. The files of one folder are a [Program]. A block marked "text" directly
// after a block of Go is the output of that program.
//
// A block marked with a language and a file, "go example/postgres/main.go", is an excerpt: the file has these lines. Blocks
// with another mark or with none are ignored.
package doctest
