// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/kernel/kerneltest"
)

func TestAnotherWinnerIsOneUpdateWithoutAGap(t *testing.T) {
	t.Parallel()
	const known = "  - {dst: 10.1.0.0/16, via: 10.0.0.2"
	state := strings.Replace(small, known, known+", metric: 50", 1)
	path := write(t, state)
	p := start(t, path, "-resync", "0")
	p.untilHealthy()
	// wants writes a file with one more wanted route, which leads to another winner, with these numbers of routes
	// meanwhile.
	wants := func(more, via string, counts ...int) {
		t.Helper()
		var seen *kerneltest.Routes
		p.inside(func() (err error) {
			seen, err = kerneltest.WatchRoutes(route("10.1.0.0/16"))
			return err
		})
		before := time.Now()
		require.NoError(t, writeFile(path, strings.Replace(state, "routes:\n", "routes:\n"+more, 1)))
		p.until("it is the winner", func() bool {
			return slices.Equal(p.routes(unix.RT_TABLE_MAIN), []string{"10.1.0.0/16 via " + via})
		})
		p.untilHealthy()
		var got []int
		p.inside(func() (err error) {
			got, err = seen.End()
			return err
		})
		assert.Equal(t, counts, got)
		operations := 0
		for _, event := range p.explain("routes", "main/10.1.0.0/16").Operations {
			if event.Started.After(before) {
				operations++
			}
		}
		assert.Equal(t, 1, operations)
	}
	wants("  - {dst: 10.1.0.0/16, via: 10.0.0.3}\n", "10.0.0.3", 2, 1)
	wants("  - {dst: 10.1.0.0/16, via: 10.0.0.4}\n", "10.0.0.4", 1)
	notes := p.explain("derive-routes", "file/main/10.1.0.0/16/50").Notes
	assert.Equal(t, []string{`main/10.1.0.0/16 of table "routes": it loses to file/main/10.1.0.0/16 (main 10.1.0.0/16 10.0.0.4 br0 0 global file), 2 row(s) want it`}, notes)
	wants("", "10.0.0.2", 2, 1)
	assert.NotContains(t, p.stderr.String(), "removed what no row asks for")
}
