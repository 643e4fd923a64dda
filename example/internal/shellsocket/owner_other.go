// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build !unix

package shellsocket

import "io/fs"

// isOurs reports that a file is not known to belong to this user.
func isOurs(fs.FileInfo) bool { return false }
