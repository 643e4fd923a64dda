// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package view

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/internal/screen"
	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the time at which all tests begin.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func item(kind, key string, status reconciler.StatusKind, seconds float64, reason ...string) desired.Item {
	i := desired.Item{Kind: kind, Key: key, Status: reconciler.Status{Kind: status, UpdatedAt: at(seconds)}}
	if len(reason) > 0 {
		i.Status.Error = &reason[0]
	}
	return i
}

// story is the life of a small state: two objects appear, one waits for the other, both become Done, one
// fails, one is deleted, and one appears whose time is not known.
var story = [][]desired.Item{
	{item("link", "br0", reconciler.StatusKindPending, 0), item("route", "main/10.1.0.0/16", reconciler.StatusKindPending, 0)},
	{item("link", "br0", reconciler.StatusKindPending, 0), item("route", "main/10.1.0.0/16", reconciler.StatusKindBlocked, 0.01, `link "br0" is not there yet`)},
	{item("link", "br0", reconciler.StatusKindDone, 0.02), item("route", "main/10.1.0.0/16", reconciler.StatusKindDone, 0.025)},
	{item("link", "br0", reconciler.StatusKindDone, 5.1), item("route", "main/10.1.0.0/16", reconciler.StatusKindDone, 5.1)},
	{item("link", "br0", reconciler.StatusKindDone, 5.1), item("route", "main/10.1.0.0/16", reconciler.StatusKindError, 10, "no such device\nat \x1b[31mall")},
	{item("link", "br0", reconciler.StatusKindDone, 5.1), item("route", "main/10.1.0.0/16", reconciler.StatusKindError, 11, "network is down")},
	{item("link", "br0", reconciler.StatusKindDone, 5.1), {Kind: "sysctl", Key: "net.x", Status: reconciler.Status{Kind: reconciler.StatusKindPending}}},
}

// golden compares with a file. To change it, run with UPDATE=1, and commit only differences that you
// understand.
func golden(t *testing.T, name, have string) {
	t.Helper()
	path := "testdata/" + name
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(have), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), have)
}

func TestLinesHasOneLineForEachChange(t *testing.T) {
	var out bytes.Buffer
	lines := NewLines(&out)
	for i, items := range story {
		require.NoError(t, lines.Show(Scene{Items: items, Now: at(float64(20 + i))}))
		require.NoError(t, lines.Show(Scene{Items: items, Now: at(float64(20 + i))}), "the same object again is no change")
	}
	golden(t, "lines.txt", out.String())
}

func TestTableShowsTheAgeOfEachStatus(t *testing.T) {
	var all strings.Builder
	for i, items := range story {
		now := at([]float64{0, 0.01, 0.02, 65, 3700, 90000, 200000}[i])
		for _, line := range table(Scene{Title: "title", Items: items, Notes: []string{"a note"}, Now: now}, 20) {
			all.WriteString(line + "\n")
		}
		all.WriteString("\n")
	}
	golden(t, "tables.txt", all.String())
}

func TestTableFitsTheTerminal(t *testing.T) {
	var items []desired.Item
	for i := range 30 {
		status := reconciler.StatusKindDone
		if i%10 == 9 {
			status = reconciler.StatusKindError
		}
		items = append(items, item("link", "l"+strings.Repeat("x", i), status, 0, "bad"))
	}
	for _, test := range []struct {
		height, notes int
		want          string // the last row, or the line that counts the rest
		errors        int
	}{
		{0, 0, "link", 3},
		{33, 0, "link", 3},
		{32, 0, "and 27 more", 3},
		{7, 0, "and 27 more", 3},
		{6, 0, "and 28 more", 2},
		{8, 2, "and 28 more", 2},
		{1, 1, "and 29 more", 1},
	} {
		notes := make([]string, test.notes)
		lines := table(Scene{Items: items, Notes: notes, Now: noon}, test.height)
		if test.height > 5 {
			assert.Less(t, len(lines), test.height, "a line is left for the cursor: %+v", test)
		}
		shown := 0
		for _, line := range lines {
			if strings.Contains(line, "Error") {
				shown++
			}
		}
		assert.Equal(t, test.errors, shown, "%+v", test)
		last := lines[len(lines)-1-test.notes]
		assert.True(t, strings.HasPrefix(last, test.want), "%+v: %q", test, last)
	}
}

// fullDisk is a writer that fails.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestViewThatCannotBeWrittenIsAnError(t *testing.T) {
	scene := Scene{Items: story[0], Now: noon}
	assert.EqualError(t, NewLines(fullDisk{}).Show(scene), "disk full")
	full := &Table{&screen.Screen{Out: fullDisk{}, Size: func() (width, height int) { return 0, 0 }}}
	assert.EqualError(t, full.Show(scene), "disk full")
}

// recorder keeps the scenes it is shown.
type recorder struct{ scenes chan Scene }

func (r recorder) Show(s Scene) error {
	r.scenes <- s
	return nil
}

func TestWatcherShowsChangesTimeAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		tables, err := desired.NewTables(db)
		require.NoError(t, err)
		store, err := desired.NewStore(db, tables, nil, nil)
		require.NoError(t, err)
		t.Cleanup(store.Close)
		r := recorder{make(chan Scene, 100)}
		w := Watcher{DB: db, Tables: tables, View: r, Title: "title", Settle: 10 * time.Millisecond, Every: time.Minute, Notes: func() []string { return []string{"note"} }}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()

		synctest.Wait() // until it has shown the empty tables
		require.Len(t, r.scenes, 1)
		scene := <-r.scenes
		assert.Empty(t, scene.Items)
		assert.Equal(t, []string{"note"}, scene.Notes)

		state, err := config.Parse("f", []byte("links: [{name: br0, kind: bridge}]"))
		require.NoError(t, err)
		require.NoError(t, store.Apply(state))
		time.Sleep(time.Second) // until it has shown the link; each table has a transaction of its own
		require.Len(t, r.scenes, 1)
		assert.Len(t, (<-r.scenes).Items, 1)

		time.Sleep(2*time.Minute + time.Second)
		assert.Len(t, r.scenes, 2, "two minutes later")

		cancel()
		require.NoError(t, <-ended)
		assert.Len(t, r.scenes, 3, "the end is shown")
	})
}
