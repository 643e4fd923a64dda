// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// PauseKeys counts an object once, even if its key is given twice or in two forms.
func TestPauseKeysCountsAnObjectOnce(t *testing.T) {
	everyWay(t, func(e *env) {
		e.put(1, ids(1, 3)...)
		e.pass(time.Second)
		n, err := e.loop.PauseKeys("1", `"1"`, "0x0000000000000001", "2", "1")
		require.NoError(e, err)
		require.Equal(e, 2, n)
		n, err = e.loop.ResumeKeys("1", "1", "2", `"2"`)
		require.NoError(e, err)
		require.Equal(e, 2, n)
		n, err = e.loop.Retry(e.Context(), "1", "1")
		require.NoError(e, err)
		require.Equal(e, 0, n)
		n, err = e.loop.Refresh(e.Context(), "1", "1", `"1"`)
		require.NoError(e, err)
		require.Equal(e, 1, n)
	})
}

// A busy loop may know of a deletion. A call that it does not answer must not return ErrNotFound.
func TestBusyLoopPausesADeletion(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		e.pass(time.Second)
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return errors.New("no")
			}
			time.Sleep(10 * time.Second)
			return nil
		})
		e.remove(1)
		e.pass(time.Second)
		e.put(2, 2)
		e.pass(time.Second)
		n, err := e.loop.PauseKeys("1")
		require.Zero(e, n)
		require.ErrorContains(e, err, "object 1 is not in the table")
		require.ErrorContains(e, err, "busy")
		require.NotErrorIs(e, err, inspect.ErrNotFound)
		e.target.deciding(nil)
		e.pass(time.Minute)
	}, nil)
}
