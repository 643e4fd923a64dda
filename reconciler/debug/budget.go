// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/statekeel/statekeel/reconciler"
)

// maxList bounds the bytes of a list in the JSON of a page. Texts of others are in it, and
// the number of its elements says little about their size.
const maxList = 1 << 20

// fitting returns how many of the first elements of a list have no more than maxList bytes of
// JSON together; one, if the first alone has more.
func fitting[T any](list iter.Seq2[int, T]) (n int) {
	size := 0
	for _, element := range list {
		encoded, err := json.Marshal(element)
		if err != nil {
			// The answer fails of it.
			return n + 1
		}
		if size += len(encoded) + 1; size > maxList && n > 0 {
			return n
		}
		n++
	}
	return n
}

// objectsWithin returns a page of objects that ends early if it would be too large: the next
// one begins where it ends.
func objectsWithin(ctx context.Context, t target, q reconciler.ObjectQuery) reconciler.ObjectPage {
	for {
		page := t.Objects(ctx, q)
		n := fitting(slices.All(page.Objects))
		if n == len(page.Objects) {
			return page
		}
		// The reconciler alone knows how to go on after an object.
		q.Limit = n
	}
}

// latestWithin returns the latest of a list, whose last is the latest, and how many others it
// leaves out since they would make it too large.
func latestWithin[T any](list []T) (latest []T, omitted int) {
	omitted = len(list) - fitting(slices.Backward(list))
	return list[omitted:], omitted
}

// leftOut says that a table lacks some of what was asked for; empty if it does not.
func leftOut(omitted int, what string) string {
	if omitted == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s further %s are left out: their texts are too long)", number(omitted), what)
}
