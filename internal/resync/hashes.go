// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import "slices"

// hashes is a set of hashes that is built once and then read. It uses eight bytes a hash, and a quarter more while
// it grows.
type hashes [256][]uint64

func (h *hashes) add(hash uint64) {
	part := &h[hash>>56]
	*part = append(*part, hash)
}

// build ends the additions, and returns the number of different hashes.
func (h *hashes) build() (n int) {
	for i, part := range h {
		slices.Sort(part)
		h[i] = slices.Compact(part)
		n += len(h[i])
	}
	return n
}

func (h *hashes) has(hash uint64) bool {
	_, found := slices.BinarySearch(h[hash>>56], hash)
	return found
}
