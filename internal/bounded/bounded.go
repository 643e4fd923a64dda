// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package bounded bounds the size of the lists that a page or a command answers with. The number of
// elements is not enough for that: they contain texts of any length from users and targets.
//
// It has no state. Its functions are called by the goroutines of readers.
package bounded

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// MaxList bounds the bytes of JSON of a list in an answer.
const MaxList = 1 << 20

// fitting returns how many of the first elements of a list fit into size bytes of JSON together; 1 if
// the first element alone does not fit.
func fitting[T any](list iter.Seq2[int, T], size int) (n int) {
	for _, element := range list {
		used, err := sizeOf(element)
		if err != nil {
			// The encoding of the answer will return this error.
			return n + 1
		}
		if size -= used; size < 0 && n > 0 {
			return n
		}
		n++
	}
	return n
}

// sizeOf returns the bytes of JSON of a list's element.
func sizeOf(element any) (int, error) {
	encoded, err := json.Marshal(element)
	return len(encoded) + text.Escapes(string(encoded)), err
}

// Objects returns a page of objects of at most [MaxList] bytes, or of one object. The next page
// begins where it ends.
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
		// Ask again with a limit: only the reconciler can make the token for the next page.
		q.Limit = n
	}
}

// First returns the first elements of a list that fit into size bytes together, at least one, and the
// number of the others.
func First[T any](list []T, size int) (first []T, omitted int) {
	n := fitting(slices.All(list), size)
	return list[:n], len(list) - n
}

// Latest is [First] from the end of a list. The last element is the latest.
func Latest[T any](list []T, size int) (latest []T, omitted int) {
	omitted = len(list) - fitting(slices.Backward(list), size)
	return list[omitted:], omitted
}

// Rounds bounds a list of rounds like [Latest], first without their operations. In answer, the latest
// rounds have their operations as far as all operations of the round fit into the rest of size. whole
// has the same rounds, each with all its operations.
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

// CutTexts cuts the error texts in a snapshot to the size of table cells, for a list of many
// reconcilers. It copies the lists that the snapshot shares with others before it changes them.
func CutTexts(s *inspect.Snapshot) {
	s.PruneFailure = text.Cell(s.PruneFailure)
	s.Breaker, s.Errors = text.Cell(s.Breaker), slices.Clone(s.Errors)
	for i := range s.Errors {
		s.Errors[i].Example = text.Cell(s.Errors[i].Example)
	}
}
