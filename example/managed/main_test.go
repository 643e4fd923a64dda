// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/managed/demo"
)

// asProgram is the variable that makes this test binary run as the program. Tests use it to start
// processes.
const asProgram = "MANAGED_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		os.Exit(run(ctx, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// program returns the command that runs this program with arguments.
func program(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

func TestDemoLeaksAndDuplicatesNothing(t *testing.T) {
	for seed := range 2 {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			dir := t.TempDir()
			err := demo.Demo{
				Command: program, Dir: dir, Out: &out,
				Broker: append([]string{"-seed", fmt.Sprint(seed)}, faults...),
			}.Run(t.Context())
			log, readErr := os.ReadFile(filepath.Join(dir, "log"))
			require.NoError(t, readErr)
			require.NoError(t, err, "%s\nlog:\n%s", &out, log)
			assert.NotContains(t, string(log), "DATA RACE")
			assert.Contains(t, out.String(), "the end, after 5 kills")
			assert.Contains(t, out.String(), "and tunnel-0; nothing was leaked, nothing created twice")
		})
	}
}

func TestDemoThatCannotStartReportsIt(t *testing.T) {
	dir := t.TempDir()
	err := demo.Demo{Command: program, Dir: dir, Out: &bytes.Buffer{}, Broker: []string{"-reset", "2"}}.Run(t.Context())
	require.ErrorContains(t, err, "did not start")
	log, readErr := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, readErr)
	assert.Contains(t, string(log), "managed broker: Faults.Reset is 2, must be from 0 to 1\nthe faults add up to 2, must be at most 1")
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{{}, {"nonsense"}, {"agent", "-nonsense"}, {"broker", "more"}, {"demo", "-seed", "x"}} {
		cmd := program(args...)
		_ = cmd.Run() // the exit code is checked below
		assert.Equal(t, 2, cmd.ProcessState.ExitCode(), args)
	}
	cmd := program("agent", "-poll", "0s", "-listen", "127.0.0.1:0")
	out, _ := cmd.CombinedOutput()
	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(out), "the intervals to poll and to resync must be positive")
}

func TestProcessEndsWithItsParent(t *testing.T) {
	cmd := program("broker", "-file", filepath.Join(t.TempDir(), "broker.db"), "-listen", "127.0.0.1:0", "-with-parent")
	// Standard input is empty, so it ends at once.
	require.NoError(t, cmd.Run())
}
