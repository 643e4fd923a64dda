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
		state: "state.yaml", timeout: 10 * time.Second, resync: 5 * time.Second,
		shell: "/run/user/7/netagent.sock",
	}, s)
	s, err = parseFlags([]string{"-state", "x", "-once", "-timeout", "1s", "-shell", "", "-resync", "0", "-v"}, nil)
	require.NoError(t, err)
	assert.Equal(t, settings{state: "x", once: true, timeout: time.Second, verbose: true}, s)
}

func TestBadArgumentsAreErrors(t *testing.T) {
	for arguments, want := range map[string]string{
		"x.yaml":                         `unexpected argument "x.yaml"; the file is named by -state`,
		"-nonsense":                      "flag provided but not defined: -nonsense",
		"-timeout 0s":                    "-timeout is 0s, must be positive",
		"-resync -1s":                    "-resync is -1s, must not be negative",
		"-timeout 0s -resync -1s":        "-timeout is 0s, must be positive\n-resync is -1s, must not be negative",
		"-shell " + padded("/tmp/", 108): `-shell "` + padded("/tmp/", 108) + `" is longer than the 107 bytes that the path of a socket can have`,
	} {
		var stderr bytes.Buffer
		assert.Equal(t, 2, run(strings.Fields(arguments), &stderr), arguments)
		assert.Equal(t, "netagent: "+want+"\n", stderr.String())
	}
}

func padded(prefix string, length int) string {
	return prefix + strings.Repeat("x", length-len(prefix))
}

func TestHelpListsTheFlags(t *testing.T) {
	var stderr bytes.Buffer
	assert.Equal(t, 0, run([]string{"-h"}, &stderr))
	for _, want := range []string{"netagent shell", "-state file", "-once", "-timeout", "-shell path", "-resync"} {
		assert.Contains(t, stderr.String(), want)
	}
}
