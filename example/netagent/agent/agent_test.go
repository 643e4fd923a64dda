// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/shell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/example/netagent/view"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a target in memory: the specs of the applied objects by key, and the keys of those that fail.
type world struct {
	mu      sync.Mutex
	there   map[string]any
	refuses map[string]error
	in      desired.Surroundings
	updates map[string]int
	lists   map[string]int

	// updating, if not nil, is called by the updates.
	updating func(spec any)
}

func newWorld() *world {
	return &world{there: make(map[string]any), refuses: make(map[string]error), updates: make(map[string]int), lists: make(map[string]int)}
}

func (w *world) target(in desired.Surroundings) desired.Target {
	w.in = in
	return desired.Target{
		Observe:   w.observe,
		Links:     part[config.Link]{w, "link "},
		Addresses: part[config.Address]{w, "address "},
		Routes:    part[config.Route]{w, "route "},
		Sysctls:   part[config.Sysctl]{w, "sysctl "},
	}
}

// observe reports one link, and waits for the end of the context.
func (w *world) observe(ctx context.Context, health cell.Health) error {
	txn := w.in.DB.WriteTxn(w.in.Links)
	if _, _, err := w.in.Links.Insert(txn, &observed.Link{Name: "seen", Index: 7}); err != nil {
		return err
	}
	txn.Commit()
	health.OK("sees one link")
	<-ctx.Done()
	return nil
}

// keys returns the keys of the applied objects.
func (w *world) keys() (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.there {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) count(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.updates[key]
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// part is the operations of one kind of objects.
type part[S desired.Spec] struct {
	world *world
	kind  string
}

func (p part[S]) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *desired.Row[S]) error {
	if p.world.updating != nil {
		p.world.updating(row.Spec)
	}
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	key := p.kind + row.Spec.Key()
	p.world.updates[key]++
	if err := p.world.refuses[key]; err != nil {
		return err
	}
	p.world.there[key] = row.Spec
	return nil
}

func (p part[S]) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *desired.Row[S]) error {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	key := p.kind + row.Spec.Key()
	if err := p.world.refuses["delete "+key]; err != nil {
		return err
	}
	delete(p.world.there, key)
	return nil
}

func (p part[S]) List(_ context.Context, _ statedb.ReadTxn, yield func(*desired.Row[S]) bool) error {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.world.lists[p.kind]++
	for _, spec := range p.world.there {
		if spec, is := spec.(S); is && !yield(&desired.Row[S]{Spec: spec}) {
			break
		}
	}
	return p.world.refuses["list "+p.kind]
}

func (p part[S]) Get(_ context.Context, _ statedb.ReadTxn, wanted *desired.Row[S]) (found *desired.Row[S], ok bool, err error) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	spec, ok := p.world.there[p.kind+wanted.Spec.Key()].(S)
	return &desired.Row[S]{Spec: spec}, ok, nil
}

const state = `
links: [{name: br0, kind: bridge}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}]
routes: [{dst: 10.1.0.0/16, via: 10.0.0.2}]
sysctls: {net.ipv4.ip_forward: 1}
`

// all is the keys that the state above results in.
var all = []string{"address br0/10.0.0.1/24", "link br0", "route main/10.1.0.0/16", "sysctl net.ipv4.ip_forward"}

// options returns the options of an agent in a world.
func options(t *testing.T, w *world, text string) Options {
	path := filepath.Join(t.TempDir(), "state.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return Options{
		File:    path,
		Target:  w.target,
		Resync:  time.Hour,
		View:    view.Watcher{View: view.NewLines(io.Discard)},
		Metrics: reconciler.NewUnpublishedExpVarMetrics(),
		Log:     slog.New(slog.DiscardHandler),
	}
}

// running runs an agent until the test ends.
func running(t *testing.T, o Options) {
	reconcilertest.Go(t, func(ctx context.Context) error { return Run(ctx, o) })
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); {
		require.True(t, time.Now().Before(deadline), "timed out waiting until %s", what)
		<-time.After(time.Millisecond)
	}
}

func TestAllIsAppliedAndStatusSaysWhatIsNot(t *testing.T) {
	t.Parallel()
	for want, refuses := range map[string]map[string]error{
		"ok, 4 objects are Done\n": nil,
		"route main/10.1.0.0/16: Error: boom\nsysctl net.ipv4.ip_forward: Blocked: waits for Godot\n": {
			"route main/10.1.0.0/16": errors.New("boom"), "sysctl net.ipv4.ip_forward": reconciler.Blocked("waits for Godot"),
		},
		// The listing of links holds up links only.
		"link br0: Pending\n": {"list link ": errors.New("boom")},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			maps.Copy(w.refuses, refuses)
			o := options(t, w, state)
			ask := asking(t, &o)
			running(t, o)
			until(t, "the status is "+want, func() bool { return strings.HasPrefix(ask("netagent/status"), want) })
			if refuses == nil {
				assert.Equal(t, all, w.keys())
			}
		})
	}
}

// asking gives the agent a shell, and returns a function that runs a command there; empty if it does not listen yet.
func asking(t *testing.T, o *Options) (ask func(command string) string) {
	dir, err := os.MkdirTemp("", "n") // the path of a socket is limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	o.Shell = filepath.Join(dir, "s")
	return func(command string) string {
		conn, err := net.Dial("unix", o.Shell)
		if err != nil {
			return ""
		}
		_ = conn.Close()
		var out strings.Builder
		if err := shell.ShellExchange(shell.Config{ShellSockPath: o.Shell}, &out, "%s", command); err != nil {
			return "failed: " + out.String() // the error has the last line only
		}
		return out.String()
	}
}

// An earlier run has left something in the target: it stays until the file is good.
func TestBadFileAtTheStartIsReportedAndChangesNothing(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"missing": {"", ": no such file or directory"},
		"bad":     {"links:\n  - {name: br0, kind: vxlan}\n", `:2:5: link "br0": unknown kind "vxlan"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.there["link stray"] = config.Link{Name: "stray"}
			o := options(t, w, test.text)
			if test.text == "" {
				require.NoError(t, os.Remove(o.File))
			}
			ask := asking(t, &o)
			running(t, o)
			until(t, "the file is named", func() bool { return strings.Contains(ask("netagent/status"), o.File+test.want) })
			assert.Contains(t, ask("netagent/status"), "the state file has not been read yet\n")
			assert.Equal(t, []string{"link stray"}, w.keys())
			require.NoError(t, os.WriteFile(o.File, []byte(state), 0o644))
			until(t, "the good file is applied", func() bool { return slices.Equal(w.keys(), all) })
		})
	}
}

func TestEndedContextStopsTheAgentAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, Run(ctx, options(t, newWorld(), state)))
}

func TestDriftIsRepairedAndStraysAreRemoved(t *testing.T) {
	w := newWorld()
	o := options(t, w, state)
	o.Resync = 50 * time.Millisecond
	running(t, o)
	until(t, "all is there", func() bool { return slices.Equal(w.keys(), all) })
	w.change(func() {
		delete(w.there, "link br0")
		delete(w.there, "sysctl net.ipv4.ip_forward")
		w.there["route main/10.66.0.0/16"] = config.Route{Table: config.TableMain, Dst: netip.MustParsePrefix("10.66.0.0/16")}
		w.there["address br0/10.66.0.1/24"] = config.Address{Dev: "br0", CIDR: netip.MustParsePrefix("10.66.0.1/24")}
	})
	until(t, "all is as before", func() bool { return slices.Equal(w.keys(), all) })
}

func TestUndoneObjectsAreAppliedAgainAtOnce(t *testing.T) {
	w := newWorld()
	running(t, options(t, w, state)) // lists every hour
	until(t, "all is there", func() bool { return slices.Equal(w.keys(), all) })
	until(t, "the link of the target is observed", func() bool {
		link, _, seen := w.in.Links.Get(w.in.DB.ReadTxn(), observed.ByName("seen"))
		return seen && link.Index == 7
	})
	w.change(func() { delete(w.there, "route main/10.1.0.0/16") })
	links := w.count("link br0")
	w.in.Undid("br0", desired.UndidRoutes)
	until(t, "the route is back", func() bool { return slices.Equal(w.keys(), all) })
	assert.Equal(t, links, w.count("link br0"))
}

// A link is created when all that needs it was applied to another one.
func TestReadyWaitsForWhatAnOperationHasUndone(t *testing.T) {
	const route = "route main/10.1.0.0/16"
	w := newWorld()
	create, apply := make(chan struct{}), make(chan struct{})
	w.updating = func(spec any) {
		switch spec.(type) {
		case config.Link:
			<-create
			w.change(func() { delete(w.there, route) })
			w.in.Undid("br0", desired.UndidRoutes)
		case config.Route:
			if w.count(route) > 0 {
				<-apply
			}
		}
	}
	o := options(t, w, state)
	ask := asking(t, &o)
	running(t, o)
	waitsFor := func(table, not string) {
		t.Helper()
		until(t, "it waits for "+table, func() bool {
			text := ask("netagent/ready")
			return strings.Contains(text, fmt.Sprintf("reconciler %q", table)) && !strings.Contains(text, fmt.Sprintf("reconciler %q", not))
		})
	}
	waitsFor("links", "routes")
	close(create)
	waitsFor("routes", "links")
	assert.NotContains(t, w.keys(), route)
	close(apply)
	until(t, "it is ready", func() bool { return strings.TrimSpace(ask("netagent/ready")) == "ready\nok, 4 objects are Done" })
	assert.Equal(t, all, w.keys())
}

func TestFillReplacesTheStateFile(t *testing.T) {
	w := newWorld()
	w.there["link stray"] = config.Link{Name: "stray"}
	o := options(t, w, state)
	var db *statedb.DB
	var tables *desired.Tables
	var done func(statedb.WriteTxn)
	invoked := make(chan struct{})
	o.File = ""
	o.Fill = cell.Invoke(func(d *statedb.DB, ts *desired.Tables) {
		db, tables = d, ts
		txn := db.WriteTxn(tables.Links)
		done = tables.Links.RegisterInitializer(txn, "test")
		txn.Commit()
		close(invoked)
	})
	running(t, o)
	<-invoked
	put := func(name string) {
		txn := db.WriteTxn(tables.Links)
		_, _, err := tables.Links.Insert(txn, &desired.Link{Spec: config.Link{Name: name, Kind: config.Bridge}, Source: "test"})
		require.NoError(t, err)
		if name == "last" {
			done(txn)
		}
		txn.Commit()
	}
	put("first")
	until(t, "the first is there", func() bool { return slices.Contains(w.keys(), "link first") })
	assert.Contains(t, w.keys(), "link stray", "nothing is removed before the tables are initialised")
	put("last")
	until(t, "the stray is gone", func() bool { return slices.Equal(w.keys(), []string{"link first", "link last"}) })
}

func TestObjectsOnDifferentLinksRunConcurrently(t *testing.T) {
	w := newWorld()
	var mu sync.Mutex
	busy, together := make(map[string]int), 0
	release := make(chan struct{})
	w.updating = func(spec any) {
		a := spec.(config.Address)
		mu.Lock()
		busy[a.Dev]++
		assert.Equal(t, 1, busy[a.Dev], "one operation on a link at a time")
		together = max(together, len(busy))
		mu.Unlock()
		<-release
		mu.Lock()
		delete(busy, a.Dev)
		mu.Unlock()
	}
	running(t, options(t, w, `addresses:
  - {dev: a, cidr: 10.0.0.1/24}
  - {dev: a, cidr: 10.0.1.1/24}
  - {dev: a, cidr: 10.0.2.1/24}
  - {dev: b, cidr: 10.1.0.1/24}
  - {dev: c, cidr: 10.2.0.1/24}
`))
	until(t, "three are worked on", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return together == 3
	})
	close(release)
	until(t, "all are there", func() bool { return len(w.keys()) == 5 })
}

// closedPipe is standard output when its reader has ended.
type closedPipe struct{}

func (closedPipe) Show(view.Scene) error { return io.ErrClosedPipe }

func TestFailingViewStopsTheAgent(t *testing.T) {
	o := options(t, newWorld(), state)
	o.View.View = closedPipe{}
	assert.ErrorIs(t, Run(t.Context(), o), io.ErrClosedPipe)
}

func TestInvalidReconcilerOptionsAreAnError(t *testing.T) {
	o := options(t, newWorld(), state)
	o.Resync = -time.Second
	assert.ErrorContains(t, Run(t.Context(), o), "Settings.ResyncInterval is -1s, must not be negative")
}
