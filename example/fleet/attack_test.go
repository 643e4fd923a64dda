// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/fleet/feed"
	"github.com/statekeel/statekeel/internal/tests/testlog"
)

func TestFleetInterruptedAtItsStartLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{50 * time.Millisecond, 400 * time.Millisecond, 1200 * time.Millisecond} {
		dir := newDir(t)
		cmd := self("-dir", string(dir))
		var out testlog.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Start())
		for {
			if _, err := os.Stat(string(dir)); err == nil {
				break
			}
		}
		<-time.After(after)
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		assert.NoError(t, cmd.Wait(), out.String())
		assert.NoDirExists(t, string(dir), "interrupted after %s", after)
		assert.Empty(t, leftovers(t, dir))
	}
}

func TestSecondFleetIsRefusedWhileTheFirstStarts(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	first := self("-dir", string(dir))
	require.NoError(t, first.Start())
	defer func() {
		_ = first.Process.Signal(syscall.SIGINT)
		_ = first.Wait()
		assert.Empty(t, leftovers(t, dir))
	}()
	for {
		if _, err := os.Stat(dir.Log()); err == nil {
			break
		}
	}
	second := self("-dir", string(dir))
	var out testlog.Buffer
	second.Stdout, second.Stderr = &out, &out
	require.NoError(t, second.Start())
	defer time.AfterFunc(patience, func() { _ = second.Process.Signal(syscall.SIGINT) }).Stop()
	assert.Error(t, second.Wait())
	assert.Contains(t, out.String(), "a fleet runs in")
	assert.FileExists(t, dir.Log(), "the log of the first")
}

func TestOddRequestsAreNotTakenAsDone(t *testing.T) {
	f := start(t)
	for _, name := range []string{strings.Repeat("x", 2000), "c\nkill a", "ä", ""} {
		_, err := f.run("start", name)
		assert.Error(t, err, "%q", name)
	}
	for _, name := range []string{"store", "", "../a", "no\nkill a"} {
		_, err := f.run("kill", name)
		assert.Error(t, err, "%q", name)
	}
	assert.NotContains(t, strings.Join(leftovers(t, f.dir), "\n"), "-name c")
}

func TestOddKeysAreKeysForTheShell(t *testing.T) {
	f := start(t)
	// Keys are data for the shell of an agent.
	for _, key := range []string{"links/it's", "links/x' 'y", `links/a\`, "links/br 0", "links/ü", "links/x\nreconciler/pause links", "links/$(id)"} {
		f.put(key, "{name: br1, kind: bridge}")
		f.until("it is bad", func() bool { return len(f.agent("a").Problems) > 0 })
		out, err := f.run("why", "a", key)
		assert.Equal(t, strings.Contains(key, "\n"), err != nil, "%q: %v", key, err)
		assert.Contains(t, out, "must be at that key", "%q", key)
		f.applied(f.del(key), "a", "b")
	}
}

func TestOneBadAckHidesNoOtherAgent(t *testing.T) {
	f := start(t)
	_, err := f.client.Put(t.Context(), feed.Acks+"z\x1b[2J.routes", "nonsense")
	require.NoError(t, err)
	assert.NotContains(t, f.untilApplied(2), "\x1b")
}
