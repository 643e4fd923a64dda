// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package bounded bounds the bytes of lists that a page or a command answers with. Texts of
// others are in them, and the number of their elements says little about their size.
package bounded

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// MaxList is how many bytes of JSON a list in an answer may have.
const MaxList = 1 << 20

// fitting returns how many of the first elements of a list have no more bytes of JSON together
// than a size; one, if the first alone has more.
func fitting[T any](list iter.Seq2[int, T], size int) (n int) {
	for _, element := range list {
		encoded, err := json.Marshal(element)
		if err != nil {
			// The answer will fail with this error.
			return n + 1
		}
		if size -= len(encoded) + text.Escapes(string(encoded)); size < 0 && n > 0 {
			return n
		}
		n++
	}
	return n
}

// Objects returns a page of objects that ends early if it would have more than [MaxList] bytes:
// the next one begins where it ends.
func Objects(ctx context.Context, of inspect.Inspector, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	for {
		page, err := of.Objects(ctx, q)
		if err != nil {
			return page, err
		}
		n := fitting(slices.All(page.Objects), MaxList)
		if n == len(page.Objects) {
			return page, nil
		}
		// The reconciler alone knows how to go on after an object.
		q.Limit = n
	}
}

// First returns the first elements of a list that have no more bytes together than a size, at
// least one, and how many others it leaves out.
func First[T any](list []T, size int) (first []T, omitted int) {
	n := fitting(slices.All(list), size)
	return list[:n], len(list) - n
}

// Latest is [First] from the end of a list, whose last is the latest.
func Latest[T any](list []T, size int) (latest []T, omitted int) {
	omitted = len(list) - fitting(slices.Backward(list), size)
	return list[omitted:], omitted
}

// CutTexts cuts the texts of errors in a snapshot to those of a table's cells, for a list of many
// reconcilers. Lists that the snapshot shares with others are copied.
func CutTexts(s *inspect.Snapshot) {
	s.PruneFailure = text.Cell(s.PruneFailure)
	s.Breakers, s.Errors = slices.Clone(s.Breakers), slices.Clone(s.Errors)
	for i, line := range s.Breakers {
		s.Breakers[i] = text.Cell(line)
	}
	for i := range s.Errors {
		s.Errors[i].Example = text.Cell(s.Errors[i].Example)
	}
}
