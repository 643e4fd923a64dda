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
		state: "state.yaml", timeout: 10 * time.Second, resync: 5 * time.Second, listTimeout: 30 * time.Second,
		listen: "127.0.0.1:7070", shell: "/run/user/7/netagent.sock",
	}, s)
	s, err = parseFlags([]string{"-state", "x", "-once", "-timeout", "1s", "-listen", "[::1]:0", "-shell", "", "-resync", "0", "-list-timeout", "3s", "-chaos", "2.5", "-chaos-seed", "7", "-chaos-only", "list", "-v"}, nil)
	require.NoError(t, err)
	assert.Equal(t, settings{state: "x", once: true, timeout: time.Second, listen: "[::1]:0", listTimeout: 3 * time.Second, chaos: 2.5, chaosSeed: 7, chaosOnly: "list", verbose: true}, s)
}

func TestBadArgumentsAreErrors(t *testing.T) {
	for arguments, want := range map[string]string{
		"x.yaml":                         `unexpected argument "x.yaml"; the file is named by -state`,
		"-nonsense":                      "flag provided but not defined: -nonsense",
		"-list-timeout 0s":               "-list-timeout is 0s, must be positive",
		"-timeout 0s":                    "-timeout is 0s, must be positive",
		"-resync -1s":                    "-resync is -1s, must not be negative",
		"-chaos -1":                      "-chaos is -1, must be a percentage from 0 to 100",
		"-chaos 100.5":                   "-chaos is 100.5, must be a percentage from 0 to 100",
		"-chaos NaN":                     "-chaos is NaN, must be a percentage from 0 to 100",
		"-listen 7070":                   `-listen "7070": an address and a port are needed, such as 127.0.0.1:7070`,
		"-listen :7070":                  `-listen ":7070" is not a loopback address`,
		"-listen 0.0.0.0:7070":           `-listen "0.0.0.0:7070" is not a loopback address`,
		"-listen example.org:7070":       `-listen "example.org:7070" is not a loopback address`,
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
	for _, want := range []string{"netagent shell", "-state file", "-once", "-timeout", "-listen address", "-shell path", "-resync", "-list-timeout", "-chaos percentage", "-chaos-seed", "-chaos-only name"} {
		assert.Contains(t, stderr.String(), want)
	}
}
