// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/statekeel/statekeel/reconciler/source"
)

// walk is a random history of a server, its troubles, calls of Loaded, a function that hangs, and restarts of the source.
// Loaded is never early, the log has one line for a change of the connection, and the server is not asked all the time. At
// the end the table is as the server is, Input is its version, and a list writes nothing.
func walk(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	var said []string
	var hangs atomic.Int64 // for how long the next call of Rows does
	var loads sync.WaitGroup
	var states atomic.Int64 // of the server: versions of different ones cannot be compared
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %s", seed, strings.Join(said, "; "))
		}
	}()
	run(t, func(_ *env, cfg *fakeConfig, _ *source.Config[*row]) {
		cfg.Rows = func(o *corev1.ConfigMap) ([]*row, error) {
			time.Sleep(time.Duration(hangs.Swap(0)))
			return rowsOf(o)
		}
	}, func(e *env) {
		defer func() {
			if e.Failed() {
				e.Log(e.log)
			}
		}()
		steps := []struct {
			often int
			name  string
			do    func()
		}{
			{20, "put", func() {
				var rows []string
				for range random.IntN(3) {
					rows = append(rows, fmt.Sprintf("%d=%d", random.IntN(8), random.IntN(3)))
				}
				if len(rows) == 2 && rows[0][0] == rows[1][0] {
					rows = rows[:1]
				}
				e.server.put(fmt.Sprint("o", random.IntN(8)), strings.Join(rows, ","))
			}},
			{2, "bad", func() { e.server.put(fmt.Sprint("o", random.IntN(8)), "panic") }},
			{10, "remove", func() { e.server.remove(fmt.Sprint("o", random.IntN(8))) }},
			{4, "other", e.server.other},
			{4, "bookmark", e.server.bookmark},
			{4, "cut", func() { e.server.cut(watch.Event{}) }},
			{2, "error", func() {
				e.server.cut(watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(errRefused).ErrStatus})
			}},
			{2, "expire", func() {
				e.server.cut(watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("old").ErrStatus})
			}},
			{3, "compact", e.server.compact},
			{3, "away", func() { e.server.setFail(always(errRefused)); e.server.cut(watch.Event{}) }},
			{2, "some fail", func() {
				fails := rand.New(rand.NewPCG(random.Uint64(), 0)) // under the lock of the server
				e.server.setFail(func(string) error {
					if fails.IntN(3) == 0 {
						return apierrors.NewTooManyRequests("slow down", fails.IntN(3))
					}
					return nil
				})
			}},
			{2, "the right to read the cluster comes and goes", func() {
				may := rand.New(rand.NewPCG(random.Uint64(), 0))
				e.server.setFail(func(what string) error {
					if what == "cluster" && may.IntN(2) == 0 {
						return errUnnamed
					}
					return nil
				})
			}},
			{2, "two servers, one of which does not know of the right", func() {
				asked := random.IntN(2)
				e.server.setFail(func(what string) error {
					if asked++; what == "cluster" && asked%2 == 0 {
						return errUnnamed
					}
					return nil
				})
			}},
			{1, "no namespaces", func() { e.server.setFail(always(errNoNamespace, "cluster")) }},
			{2, "pages of one list fail", func() {
				lists, bad := 0, 1+random.IntN(3)
				e.server.setFail(func(what string) error {
					if what == "list" {
						lists++
					}
					if what == "continue" && lists <= bad {
						return apierrors.NewInternalError(errRefused)
					}
					return always(errStream, "stream")(what)
				})
			}},
			{2, "hang", func() { hangs.Store(int64(random.IntN(30)) * int64(time.Second)) }},
			{6, "load", func() {
				at, of, within := e.server.now(), states.Load(), time.Duration(1+random.IntN(60))*time.Second
				loads.Go(func() {
					ctx, cancel := context.WithTimeout(e.Context(), within)
					defer cancel()
					// The sink may be at an older version while it holds rows, which is an error.
					if err := e.source.Loaded(ctx); err == nil && of == states.Load() && e.input().Input < at {
						e.Errorf("loaded at version %d, not %d", e.input().Input, at)
					}
				})
			}},
			{2, "no streams", func() { e.server.setFail(always(errStream, "stream")) }},
			{6, "back", func() { e.server.setFail(nil) }},
			{1, "replace", func() {
				states.Add(1)
				e.server.replace(fmt.Sprint("cluster ", random.Uint32()), random.Uint64N(100)+1)
			}},
			{1, "restore", func() {
				states.Add(1)
				at, objects := e.server.snapshot()
				e.server.put("o0", "0=5")
				e.server.restore(at, objects)
				// The source asks before the versions have passed those that it has seen.
				e.server.setFail(nil)
				e.pass(time.Minute)
			}},
			{2, "restart", func() { e.stop(); e.start() }},
			{10, "pass", func() { e.pass(time.Duration(random.IntN(3000)) * time.Millisecond) }},
		}
		total := 0
		for _, s := range steps {
			total += s.often
		}
		for range 60 {
			n := random.IntN(total)
			for _, s := range steps {
				if n -= s.often; n < 0 {
					said = append(said, s.name)
					s.do()
					break
				}
			}
			if random.IntN(2) == 0 {
				e.pass(time.Millisecond)
			}
		}
		e.server.setFail(nil)
		for name := range e.server.bad() {
			e.server.put(name, "")
		}
		e.server.put("last", "last=1") // not empty
		loads.Wait()
		for range 4 {
			e.pass(time.Minute)
			e.server.bookmark()
		}
		e.pass(time.Millisecond)
		require.Equal(e, e.model(), e.rows())
		require.EqualValues(e, e.server.at, e.input().Input)
		require.True(e, e.sink.State().Connected)
		before := e.revision()
		e.server.cut(watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("old").ErrStatus})
		e.pass(time.Minute)
		require.Equal(e, before, e.revision())
		e.requireNoHotLoop()
		e.requireOneLineForEachChange()
	})
}

// requireNoHotLoop requires that no second has many lists or watches. Those that Loaded asks for come at once.
func (e *env) requireNoHotLoop() {
	seconds := map[int64]int{}
	for _, what := range []string{"list", "stream", "watch"} {
		for _, at := range e.server.times(what) {
			seconds[at.Unix()]++
		}
	}
	for at, n := range seconds {
		require.Less(e, n, 30, "requests in second %d", at)
	}
}

func (e *env) requireOneLineForEachChange() {
	before := ""
	for line := range strings.Lines(e.log.String()) {
		for _, is := range []string{"source connected", "source disconnected"} {
			if strings.Contains(line, is) {
				require.NotEqual(e, before, is, line)
				before = is
			}
		}
	}
}
