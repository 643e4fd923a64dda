// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestWaitPrintsUnappliedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := routes()
		s := newShell(t, r)
		s.prints("agent is applied\n", "reconciler/wait agent")
		r.Rest = inspect.Unapplied{Keys: []inspect.Unreconciled{{Key: []byte("7"), State: inspect.StateRetry, Attempts: 2, Err: errors.New("refused\x1b")}}, More: 4}
		s.prints("agent 7 is attempted\n\"7\": retry after 2 attempt(s): refused\\x1b\nand 4 more\n", "reconciler/wait agent 7 --attempted")
		require.Equal(t, []string{`wait "" applied`, `wait "7" attempted`}, r.Take())
	})
}

// The error must not wrap that of a context: the engine would take it for the end of the script.
func TestScriptsCanExpectAWaitTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := routes()
		r.Err = errors.New("waiting for all")
		s := newShell(t, r)
		began := time.Now()
		s.fails("not within 3 s: waiting for all: context deadline exceeded", "reconciler/wait agent --timeout=3s")
		require.Equal(t, 3*time.Second, time.Since(began))
		_, err := s.run("! reconciler/wait agent --timeout=3s")
		require.NoError(t, err)
	})
}
