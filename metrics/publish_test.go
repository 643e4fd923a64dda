// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics_test

import (
	"expvar"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics"
)

// inOwnProcess runs the calling test, which must be called name, in a process of its own, because
// published variables cannot be removed. It reports whether this is that process.
func inOwnProcess(t *testing.T, name string) bool {
	const flag = "STATEKEEL_TEST_OWN_PROCESS"
	if os.Getenv(flag) == name {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.v")
	// With the race detector, a process sleeps a second before it exits.
	cmd.Env = append(os.Environ(), flag+"="+name, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS: "+name)
	return false
}

func TestPublishingTwiceReusesTheVariables(t *testing.T) {
	one, err := metrics.PublishExpVar()
	require.NoError(t, err)
	two, err := metrics.PublishExpVar()
	require.NoError(t, err)
	assert.Same(t, one.PruneCountVar, two.PruneCountVar)
	assert.Same(t, one.FiguresVar, two.FiguresVar)
	assert.Same(t, one.FiguresVar, expvar.Get("reconciliation_figures"))
	for _, m := range []*metrics.ExpVar{one, two} {
		assertMapHasTheFields(t, m)
		m.Map().Do(func(kv expvar.KeyValue) {
			assert.Same(t, kv.Value, expvar.Get(kv.Key), kv.Key)
		})
	}
}

func TestPublishingUsesMapsThatThePeerHasPublished(t *testing.T) {
	if !inOwnProcess(t, "TestPublishingUsesMapsThatThePeerHasPublished") {
		return
	}
	theirs := expvar.NewMap("prune_count")
	m, err := metrics.PublishExpVar()
	require.NoError(t, err)
	assert.Same(t, theirs, m.PruneCountVar)
	assertMapHasTheFields(t, m)
}

func TestPublishingOverOtherVariablesFailsNamingThem(t *testing.T) {
	if !inOwnProcess(t, "TestPublishingOverOtherVariablesFailsNamingThem") {
		return
	}
	expvar.NewInt("prune_count")
	expvar.NewString("reconciliation_duration")
	for range 2 {
		m, err := metrics.PublishExpVar()
		assert.Nil(t, m)
		assert.EqualError(t, err, ""+
			`expvar variable "reconciliation_duration" is already published as a *expvar.String, want a *expvar.Map`+"\n"+
			`expvar variable "prune_count" is already published as a *expvar.Int, want a *expvar.Map`)
	}
	assert.Nil(t, expvar.Get("reconciliation_count"), "a failed call has published something")
}
