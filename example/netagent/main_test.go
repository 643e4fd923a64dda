// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaultFlagsAreValid(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	s, err := parseFlags(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, settings{
		state: "state.yaml", resync: 5 * time.Second, shell: "/run/user/7/netagent.sock",
	}, s)
	s, err = parseFlags([]string{"-state", "x", "-shell", "", "-resync", "0", "-v"}, nil)
	require.NoError(t, err)
	assert.Equal(t, settings{state: "x", verbose: true}, s)
}

func TestBadArgumentsAreErrors(t *testing.T) {
	for arguments, want := range map[string]string{
		"x.yaml":      `unexpected argument "x.yaml"; the file is named by -state`,
		"-nonsense":   "flag provided but not defined: -nonsense",
		"-resync -1s": "-resync is -1s, must not be negative",
	} {
		var stderr bytes.Buffer
		assert.Equal(t, 2, run(strings.Fields(arguments), &stderr), arguments)
		assert.Equal(t, "netagent: "+want+"\n", stderr.String())
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	var stderr bytes.Buffer
	assert.Equal(t, 0, run([]string{"-h"}, &stderr))
	for _, want := range []string{"netagent shell", "-state file", "-shell path", "-resync"} {
		assert.Contains(t, stderr.String(), want)
	}
}
