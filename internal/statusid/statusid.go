// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package statusid gives out the IDs of statuses, and tells those of this process from others: a row may come from
// JSON, YAML or another encoding, with the status that another process made.
package statusid

import (
	"math/rand/v2"
	"sync/atomic"
)

// maxFirst bounds the first ID: programs that read numbers as floats keep all IDs exactly.
const maxFirst = 1 << 52

// before is the ID before the first one, and last the latest one. The first ID is random, so that two processes do not
// give out the same ones.
var (
	before = 1 + rand.Uint64N(maxFirst)
	last   atomic.Uint64
)

func init() { last.Store(before) }

// Next returns an ID that is higher than all before. It is never 0.
func Next() uint64 { return last.Add(1) }

// IsOwn reports whether Next has returned an ID in this process.
func IsOwn(id uint64) bool { return id > before && id <= last.Load() }
