// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/pauses"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The key of one object is, byte for byte, the text of the other object's key.
func TestTextOfAKeyMeansOneObject(t *testing.T) {
	const number, bytes = 55555555, 0x3535353535353535
	inBubble(t, func(e *env) {
		e.put(1, number, bytes)
		e.pass(time.Second)
		text := strconv.Itoa(number)
		for _, event := range e.loop.Events(inspect.EventQuery{Key: text}) {
			require.Equal(e, text, event.Key)
		}
		require.NotEmpty(e, e.loop.Events(inspect.EventQuery{Key: strconv.Itoa(bytes)}))
		require.NoError(e, pauses.Add(e.Context(), e.loop, strconv.Itoa(bytes)))
		require.ErrorContains(e, pauses.Remove(e.Context(), e.loop, text), "object 55555555 is not paused by its key")
		require.NoError(e, pauses.Remove(e.Context(), e.loop, strconv.Itoa(bytes)))
	}, nil)
}

// A page of long texts ends early, and the next page continues after it.
func TestPagesOfObjectsEndEarlyAtLongTexts(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(call) error { return errors.New(strings.Repeat("x", reconciler.MaxErrorText)) })
		e.put(1, ids(1, 200)...)
		e.pass(time.Second)
		walk := func(status string) {
			seen := map[string]bool{}
			for after, pages := "", 0; pages == 0 || after != ""; pages++ {
				page := e.objects(inspect.ObjectQuery{Status: status, Limit: 1000, After: after})
				size := 0
				for _, o := range page.Objects {
					require.False(e, seen[o.Key], o.Key)
					seen[o.Key] = true
					size += len(o.Error)
				}
				require.LessOrEqual(e, size, 3<<18+reconciler.MaxErrorText)
				after = page.Next
			}
			require.Len(e, seen, 200, status)
		}
		walk("error")
		e.remove(ids(1, 200)...)
		e.pass(time.Second)
		walk("deleted")
		e.target.prompt()
		e.pass(2 * time.Minute)
	}, nil)
}
