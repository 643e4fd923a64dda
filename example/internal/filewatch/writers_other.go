// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build !linux

package filewatch

import (
	"os"
	"time"
)

// mustBeQuiet returns how long an open file must be unchanged before it is read.
func mustBeQuiet(*os.File) time.Duration { return unseen }
