// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// route is a row. It is a value that cannot be compared: a row is of any type.
type route struct {
	Prefix string
	Hops   []string
	Status reconciler.Status
}

func (r route) Clone() route                        { return r }
func (r route) SetStatus(s reconciler.Status) route { r.Status = s; return r }
func (r route) GetStatus() reconciler.Status        { return r.Status }
func (r route) TableHeader() []string               { return []string{"Prefix"} }
func (r route) TableRow() []string                  { return []string{r.Prefix} }

func newRoutes(db *statedb.DB) (statedb.RWTable[route], error) {
	return statedb.NewTable(db, "routes", statedb.Index[route, string]{
		Name:       "prefix",
		FromObject: func(r route) index.KeySet { return index.NewKeySet(index.String(r.Prefix)) },
		FromKey:    index.String,
		FromString: index.FromString,
		Unique:     true,
	})
}

func to(prefix, hop string) route {
	return route{Prefix: prefix, Hops: []string{hop}, Status: reconciler.StatusPending()}
}

func config(target reconciler.Operations[route], opts ...reconciler.Option) reconciler.Config[route] {
	return reconciler.Config[route]{
		Clone: route.Clone, SetStatus: route.SetStatus, GetStatus: route.GetStatus,
		Operations: target, Options: opts,
	}
}

func newTarget() *reconcilertest.Target[route] {
	return reconcilertest.NewTarget(func(r route) string { return r.Prefix }, route.GetStatus)
}

func TestRetryRunsWhenItsBackoffEnds(t *testing.T) {
	reconcilertest.Run(t, newRoutes, func(e *reconcilertest.Env[route]) {
		target := newTarget()
		e.Start(config(target, reconciler.WithRetry(time.Second, time.Minute), reconciler.WithRefreshing(0, nil)))
		require.Equal(e, []string{"prune()"}, target.Calls())

		target.Fail("10/8", errors.New("no route to host"), errors.New("busy"))
		began := time.Now()
		e.Insert(to("10/8", "eth0"), to("11/8", "eth1"))
		e.Pass(500 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindDone, e.Status(to("11/8", "")).Kind)
		require.Equal(e, "no route to host", e.Status(to("10/8", "")).GetError())
		level, _, err := e.Health.Scope("reconcile").Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.ErrorContains(e, err, "no route to host")
		require.Contains(e, e.Logged(), "no route to host")
		require.Equal(e, []string{"update(10/8): no route to host", "update(11/8)"}, target.Calls())

		e.WaitApplied(time.Minute)
		calls := target.Take()
		require.Equal(e, "update(10/8): busy", calls[0].String())
		require.Equal(e, "update(10/8)", calls[1].String())
		require.Equal(e, 2*time.Second, calls[1].At.Sub(calls[0].At))
		require.InDelta(e, time.Second, calls[0].At.Sub(began), float64(50*time.Millisecond))
		require.Equal(e, []string{"eth0"}, target.Objects()["10/8"].Hops)
		e.Pass(time.Minute)
		require.True(e, strings.HasPrefix(e.Health.Scope("reconcile").History()[0], "OK "))

		e.Delete(to("10/8", ""))
		e.WaitApplied(time.Second)
		_, found := e.Get(to("10/8", ""))
		require.False(e, found)
		require.NotContains(e, target.Objects(), "10/8")
	})
}

func TestRestartPrunesAndRefreshKeeps(t *testing.T) {
	reconcilertest.Run(t, newRoutes, func(e *reconcilertest.Env[route]) {
		target := newTarget()
		cfg := config(target, reconciler.WithRefreshing(time.Hour, nil))
		e.Start(cfg)
		e.Insert(to("10/8", "eth0"), to("11/8", "eth1"))
		e.WaitApplied(time.Second)
		e.Stop()
		e.Delete(to("11/8", ""))
		target.Take()
		e.Start(cfg)
		require.Equal(e, []string{"prune()"}, target.Calls())
		require.Len(e, target.Objects(), 1)

		e.Pass(2 * time.Hour)
		require.Contains(e, target.Calls(), "refresh(10/8)")
	})
}

func TestDecideGetsTheContextAndRequeueIsSuccess(t *testing.T) {
	reconcilertest.Run(t, newRoutes, func(e *reconcilertest.Env[route]) {
		target := newTarget()
		target.Decide(func(ctx context.Context, c reconcilertest.Call[route]) error {
			switch c.Key {
			case "slow":
				<-ctx.Done()
				return context.Cause(ctx)
			case "again":
				return reconciler.Requeue(time.Hour)
			}
			return nil
		})
		e.Start(config(target, reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = time.Second })))
		e.Insert(to("again", "eth0"), to("slow", "eth1"))
		e.Pass(2 * time.Second)
		require.Contains(e, target.Objects(), "again")
		require.NotContains(e, target.Objects(), "slow")
		require.Equal(e, reconciler.StatusKindError, e.Status(to("slow", "")).Kind)
		target.Decide(nil)
		e.WaitApplied(time.Minute)
	})
}

// fake is a test that records its failures instead of failing.
type fake struct {
	testing.TB
	failed []string
}

func (f *fake) Helper() {}

func (f *fake) Fatalf(format string, args ...any) {
	f.TB.Helper()
	f.Errorf(format, args...)
	panic(f)
}

func (f *fake) Errorf(format string, _ ...any) { f.failed = append(f.failed, format) }

// fatal calls f, which has to end the test by Fatalf.
func fatal(t testing.TB, of *fake, f func()) {
	t.Helper()
	of.failed = nil
	require.PanicsWithValue(t, of, f)
	require.Len(t, of.failed, 1)
}

func TestImpossibleCallFailsTheTest(t *testing.T) {
	reconcilertest.Run(t, newRoutes, func(e *reconcilertest.Env[route]) {
		target := newTarget()
		e.Start(config(target))
		real := e.TB
		of := &fake{TB: real}
		e.TB = of
		target.Fail("10/8", reconciler.TerminalError(errors.New("no such device")))
		e.Insert(to("10/8", "eth0"))
		fatal(real, of, func() { e.WaitApplied(time.Minute) })
		fatal(real, of, func() { e.Status(to("11/8", "")) })
		fatal(real, of, func() { e.Start(reconciler.Config[route]{}) })
		e.TB = real
	})

	of := &fake{TB: t}
	reconcilertest.Go(of, func(ctx context.Context) error { <-ctx.Done(); return errors.New("no") })()
	require.Len(t, of.failed, 1)
	fatal(t, of, func() {
		reconcilertest.New(of, func(*statedb.DB) (statedb.RWTable[route], error) { return nil, errors.New("no") })
	})
}
