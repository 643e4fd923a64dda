// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The older service wins, however far apart they are.
func TestOldestServiceWins(t *testing.T) {
	p, err := startedProgram(t.Context(), newFake())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(quiet, context.Background())) })
	var rows []*Service
	for name, created := range map[string]time.Time{
		"e-zero": {}, "d-1500": time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), "c-2026": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"b-2300": time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), "a-9999": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	} {
		s := service(name, web, len(rows))
		s.Created = created
		rows = append(rows, s)
	}
	require.NoError(t, p.write(message{Rows: rows}))
	for _, oldest := range []string{"e-zero", "d-1500", "c-2026", "b-2300", "a-9999"} {
		_, err := p.wait(t.Context())
		require.NoError(t, err)
		winner, _, found := p.frontends.Get(p.db.ReadTxn(), ByAddress(web))
		require.True(t, found)
		require.Equal(t, oldest, winner.Name)
		require.NoError(t, p.write(message{Gone: []string{oldest}}))
	}
}
