// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestStateFileIsFollowed(t *testing.T) {
	const one = "links: [{name: one, kind: bridge}]\naddresses: [{dev: one, cidr: 10.0.0.1/24}]\nsysctls: {net.ipv4.ip_forward: 1}\n"
	path := filepath.Join(t.TempDir(), "state.yaml")
	put := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	put("links: 1\n")
	db := statedb.New()
	tables, err := NewTables(db)
	require.NoError(t, err)
	registry, scope := health.New()
	store, err := NewStore(db, tables, nil, scope.NewScope("file"))
	require.NoError(t, err)
	log := &testlog.Buffer{}
	stop := reconcilertest.Go(t, func(ctx context.Context) error {
		return store.Follow(ctx, path, slog.New(slog.NewTextHandler(log, nil)))
	})
	state := func() string {
		s, _ := tables.Snapshot(db.ReadTxn())
		var all []string
		if !s.Initialized {
			all = append(all, "not initialised")
		}
		for _, i := range s.Items {
			all = append(all, i.Key)
		}
		for _, report := range registry.Degraded() {
			all = append(all, report.String())
		}
		return strings.Join(all, " ")
	}
	until := func(want ...string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); state() != strings.Join(want, " "); {
			require.True(t, time.Now().Before(deadline), "it is %s\n%s", state(), log)
			<-time.After(time.Millisecond)
		}
	}
	problem := "file: 1 problem(s) of the source: " + path + ":1: cannot unmarshal !!int `1` into []yaml.Node"
	until("not initialised", problem+" (the file has no good version yet, so the table is not initialised)")
	put(one)
	until("one", "one/10.0.0.1/24", "net.ipv4.ip_forward")
	put("links: 1\n")
	until("one", "one/10.0.0.1/24", "net.ipv4.ip_forward", problem)
	require.Equal(t, 2, strings.Count(log.String(), "File not applied"), "one of the four sources logs it")
	put(strings.ReplaceAll(one, "one", "two"))
	until("two", "two/10.0.0.1/24", "net.ipv4.ip_forward")
	put("{}")
	until()
	stop()
	next, err := NewStore(db, tables, nil, nil)
	require.NoError(t, err, "Follow has closed the sinks")
	next.Close()
}
