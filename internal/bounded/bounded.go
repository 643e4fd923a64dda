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
		used, err := sizeOf(element)
		if err != nil {
			// The answer will fail with this error.
			return n + 1
		}
		if size -= used; size < 0 && n > 0 {
			return n
		}
		n++
	}
	return n
}

// sizeOf returns how many bytes of JSON an element of a list has.
func sizeOf(element any) (int, error) {
	encoded, err := json.Marshal(element)
	return len(encoded) + text.Escapes(string(encoded)), err
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

// Rounds is [Latest] for rounds without their operations. answer has the operations of the latest
// rounds as far as there is room left for all of a round; whole are the same rounds with all of them.
func Rounds(rounds []inspect.Round, size int) (whole, answer []inspect.Round, omitted int) {
	answer = slices.Clone(rounds)
	for i := range answer {
		answer[i].Operations = nil
	}
	answer, omitted = Latest(answer, size)
	whole = rounds[omitted:]
	for i := range answer {
		used, _ := sizeOf(answer[i])
		size -= used
	}
	for i := len(answer) - 1; i >= 0; i-- {
		used, err := sizeOf(whole[i].Operations)
		if size -= used; err == nil && size < 0 {
			break
		}
		answer[i].Operations = whole[i].Operations
	}
	return whole, answer, omitted
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
