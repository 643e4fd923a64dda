// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// route is an object for two targets, with a status field for each.
type route struct {
	Prefix string
	Kernel reconciler.Status
	Cloud  reconciler.Status
}

func (r *route) Clone() *route {
	c := *r
	return &c
}

func (r *route) setKernel(s reconciler.Status) *route { r.Kernel = s; return r }
func (r *route) getKernel() reconciler.Status         { return r.Kernel }
func (r *route) setCloud(s reconciler.Status) *route  { r.Cloud = s; return r }
func (r *route) getCloud() reconciler.Status          { return r.Cloud }

func (r *route) TableHeader() []string { return []string{"Prefix", "Kernel", "Cloud"} }
func (r *route) TableRow() []string {
	return []string{r.Prefix, r.Kernel.Kind.String(), r.Cloud.Kind.String()}
}

var routeByPrefix = statedb.Index[*route, string]{
	Name:       "prefix",
	FromObject: func(r *route) index.KeySet { return index.NewKeySet(index.String(r.Prefix)) },
	FromKey:    index.String,
	Unique:     true,
}

// routeOps counts the operations on each route. Updates take a while, and fail while broken is set.
type routeOps struct {
	takes   time.Duration
	broken  atomic.Bool
	updates map[string]int
	deletes map[string]int
}

func newRouteOps() *routeOps {
	return &routeOps{updates: map[string]int{}, deletes: map[string]int{}}
}

func (ops *routeOps) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *route) error {
	ops.updates[r.Prefix]++
	time.Sleep(ops.takes)
	if ops.broken.Load() {
		return errors.New("unreachable")
	}
	return nil
}

func (ops *routeOps) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *route) error {
	ops.deletes[r.Prefix]++
	return nil
}

func (ops *routeOps) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*route, statedb.Revision]) error {
	return nil
}

// routeApp is an app with a table of routes and a reconciler for each of the fields.
type routeApp struct {
	*app
	routes        statedb.RWTable[*route]
	kernel, cloud *routeOps
}

func newRoutes(t *testing.T, a *app) statedb.RWTable[*route] {
	routes, err := statedb.NewTable(a.db, "routes", routeByPrefix)
	require.NoError(t, err)
	return routes
}

func newRouteApp(t *testing.T) *routeApp {
	a := &routeApp{app: newApp(t), kernel: newRouteOps(), cloud: newRouteOps()}
	a.routes = newRoutes(t, a.app)
	_, err := reconciler.Register(a.params, a.routes,
		(*route).Clone, (*route).setKernel, (*route).getKernel,
		a.kernel, nil, reconciler.WithName("kernel"), withQuickRetry)
	require.NoError(t, err)
	_, err = reconciler.Register(a.params, a.routes,
		(*route).Clone, (*route).setCloud, (*route).getCloud,
		a.cloud, nil, reconciler.WithName("cloud"), withQuickRetry)
	require.NoError(t, err)
	a.start()
	return a
}

func (a *routeApp) put(r *route) {
	wtxn := a.db.WriteTxn(a.routes)
	_, _, err := a.routes.Insert(wtxn, r)
	require.NoError(a.t, err)
	wtxn.Commit()
}

func (a *routeApp) await(prefix, kernel, cloud string) {
	a.t.Helper()
	row := func() string {
		r, _, _ := a.routes.Get(a.db.ReadTxn(), routeByPrefix.Query(prefix))
		return fmt.Sprint(r.TableRow())
	}
	want := fmt.Sprint([]string{prefix, kernel, cloud})
	eventually(a.t, func() bool { return row() == want }, "route to be %s, it is %s", want, func() any { return row() })
}

func TestTwoStatusesOfOneObjectAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRouteApp(t)
		a.put(&route{Prefix: "10.0.0.0/8", Kernel: reconciler.StatusPending(), Cloud: reconciler.StatusPending()})
		a.await("10.0.0.0/8", "Done", "Done")
		pass(time.Minute)
		assert.Equal(t, map[string]int{"10.0.0.0/8": 1}, a.kernel.updates, "a status of the other reconciler must cause no update")
		assert.Equal(t, map[string]int{"10.0.0.0/8": 1}, a.cloud.updates, "a status of the other reconciler must cause no update")

		// Only one of the statuses is pending.
		a.put(&route{Prefix: "10.0.0.0/8", Kernel: reconciler.StatusPending(), Cloud: reconciler.StatusDone()})
		a.await("10.0.0.0/8", "Done", "Done")
		pass(time.Minute)
		assert.Equal(t, 2, a.kernel.updates["10.0.0.0/8"])
		assert.Equal(t, 1, a.cloud.updates["10.0.0.0/8"])

		wtxn := a.db.WriteTxn(a.routes)
		_, _, err := a.routes.Delete(wtxn, &route{Prefix: "10.0.0.0/8"})
		require.NoError(t, err)
		wtxn.Commit()
		pass(time.Minute)
		assert.Equal(t, 1, a.kernel.deletes["10.0.0.0/8"])
		assert.Equal(t, 1, a.cloud.deletes["10.0.0.0/8"])
	})
}

// The statuses become pending one after the other: v0.9.4 drops what a retry reports if another reconciler has
// written its status to the object since the failure.
func TestOneStatusFailsWhileTheOtherIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRouteApp(t)
		a.put(&route{Prefix: "10.0.0.0/8", Kernel: reconciler.StatusPending(), Cloud: reconciler.StatusDone()})
		a.await("10.0.0.0/8", "Done", "Done")

		a.cloud.broken.Store(true)
		a.put(&route{Prefix: "10.0.0.0/8", Kernel: reconciler.StatusDone(), Cloud: reconciler.StatusPending()})
		a.await("10.0.0.0/8", "Done", "Error")
		a.awaitHealth("job-reconcile-kernel", "OK: OK, 1 object(s)")
		a.awaitHealth("job-reconcile-cloud", "Degraded: 1 error(s) (unreachable)")

		a.cloud.broken.Store(false)
		a.await("10.0.0.0/8", "Done", "Done")
		a.awaitHealth("job-reconcile-cloud", "OK: OK, 1 object(s)")
		assert.Equal(t, 1, a.kernel.updates["10.0.0.0/8"])
	})
}

// How often the kernel's operation runs is not asserted: a retry of v0.9.4 puts the row back that failed, with the
// kernel's status of that time.
func TestAFailureIsRetriedIfTheOtherStatusWasWrittenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newRouteApp(t)
		a.kernel.takes, a.cloud.takes = time.Second, 2*time.Second
		a.cloud.broken.Store(true)
		a.put(&route{Prefix: "10.0.0.0/8", Kernel: reconciler.StatusPending(), Cloud: reconciler.StatusPending()})
		a.await("10.0.0.0/8", "Done", "Pending")
		a.await("10.0.0.0/8", "Done", "Error")
		a.awaitHealth("job-reconcile-cloud", "Degraded: 1 error(s) (unreachable)")

		a.cloud.broken.Store(false)
		a.await("10.0.0.0/8", "Done", "Done")
		a.awaitHealth("job-reconcile-cloud", "OK: OK, 1 object(s)")
	})
}
