// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/require"
)

// patience is how long a program waits, in virtual time, for something that must happen. It is far more than
// either implementation needs with the settings used here.
const patience = 30 * time.Second

// app is the hive of most programs: the database, a health tree, and one module "app" with a job group and,
// in some programs, metrics.
type app struct {
	t      *testing.T
	log    *slog.Logger
	hive   *hive.Hive
	db     *statedb.DB
	health *cell.SimpleHealth
	params reconciler.Params

	services statedb.RWTable[*service]
	// reconciler is what reconcileServices registered last.
	reconciler reconciler.Reconciler[*service]
}

// reconcile runs a program in a bubble, with a reconciler that is started. The program has its options below it.
func reconcile(t *testing.T, program func(t *testing.T, a *app, tg *target), opts ...reconciler.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, tg := newApp(t), newTarget()
		a.reconcileServices(tg, opts...)
		a.start()
		program(t, a, tg)
	})
}

// newApp makes the hive and does not start it, so that a program can register its reconcilers before or after
// the start. The cells are added to the module.
func newApp(t *testing.T, cells ...cell.Cell) *app {
	t.Helper()
	a := &app{
		t:   t,
		log: hivetest.Logger(t, hivetest.LogLevel(slog.LevelError)),
	}
	cells = append(cells,
		cell.ProvidePrivate(newServiceTable, job.Registry.NewGroup),
		cell.Invoke(func(db *statedb.DB, h *cell.SimpleHealth, p reconciler.Params, services statedb.RWTable[*service]) {
			a.db, a.health, a.params, a.services = db, h, p, services
		}),
	)
	a.hive = hive.New(
		statedb.Cell,
		job.Cell,
		cell.SimpleHealthCell,
		cell.Module("app", "A program", cells...),
	)
	require.NoError(t, a.hive.Populate(a.log))
	return a
}

// start starts the hive, and stops it when the program ends. When it returns, a registered reconciler has
// done its work of the start, such as the first prune.
func (a *app) start() {
	a.t.Helper()
	require.NoError(a.t, a.hive.Start(a.log, context.Background()))
	a.t.Cleanup(a.stop)
	pass(100 * time.Millisecond)
}

// stop stops the hive; a second call does nothing.
func (a *app) stop() {
	if a.hive != nil {
		require.NoError(a.t, a.hive.Stop(a.log, context.Background()))
		a.hive = nil
	}
}

// reconcileServices registers a reconciler for the services with the single operations of the target.
func (a *app) reconcileServices(target *target, opts ...reconciler.Option) reconciler.Reconciler[*service] {
	a.t.Helper()
	r, err := reconciler.Register(a.params, a.services,
		(*service).Clone, (*service).SetStatus, (*service).GetStatus,
		target, nil, opts...)
	require.NoError(a.t, err)
	a.reconciler = r
	return r
}

// put inserts the services as they are, in one transaction, and returns the revision of the table after it.
func (a *app) put(services ...*service) statedb.Revision {
	a.t.Helper()
	wtxn := a.db.WriteTxn(a.services)
	defer wtxn.Commit()
	for _, s := range services {
		_, _, err := a.services.Insert(wtxn, s)
		require.NoError(a.t, err)
	}
	return a.services.Revision(wtxn)
}

// remove deletes the services with these ids and returns the revision of the table after it.
func (a *app) remove(ids ...uint64) statedb.Revision {
	a.t.Helper()
	wtxn := a.db.WriteTxn(a.services)
	defer wtxn.Commit()
	for _, id := range ids {
		_, had, err := a.services.Delete(wtxn, &service{ID: id})
		require.NoError(a.t, err)
		require.True(a.t, had, "service %d is not in the table", id)
	}
	return a.services.Revision(wtxn)
}

// get returns the row of a service.
func (a *app) get(id uint64) *service {
	a.t.Helper()
	s, _, found := a.services.Get(a.db.ReadTxn(), serviceByID.Query(id))
	require.True(a.t, found, "service %d is not in the table", id)
	return s
}

// awaitKind waits until each of the services has a status of this kind.
func (a *app) awaitKind(kind reconciler.StatusKind, ids ...uint64) {
	a.t.Helper()
	for _, id := range ids {
		eventually(a.t, func() bool { return a.get(id).Status.Kind == kind },
			"service %d to be %s, it is %s", id, kind, func() any { return a.get(id).Status })
	}
}

// rows renders the table without its times: id, spec, handle, kind and error.
func (a *app) rows() string {
	var rows []string
	for s := range a.services.All(a.db.ReadTxn()) {
		rows = append(rows, strings.TrimSpace(strings.Join(s.TableRow(), " ")))
	}
	return strings.Join(rows, "; ")
}

// healthOf renders a scope of the health tree as "level: message (error)"; empty if the scope does not exist.
func (a *app) healthOf(scope string) string {
	h := a.health.GetChild(scope)
	if h == nil {
		return ""
	}
	h.Lock()
	defer h.Unlock()
	s := string(h.Level) + ": " + h.Status
	if h.Error != nil {
		s += " (" + h.Error.Error() + ")"
	}
	return s
}

// awaitHealth waits until healthOf a scope returns want.
func (a *app) awaitHealth(scope, want string) {
	a.t.Helper()
	eventually(a.t, func() bool { return a.healthOf(scope) == want },
		"health of %s to be %q, it is %q", scope, want, func() any { return a.healthOf(scope) })
}

// awaitHealthPrefix waits until the health of a scope begins with a text.
func (a *app) awaitHealthPrefix(scope, want string) {
	a.t.Helper()
	eventually(a.t, func() bool { return strings.HasPrefix(a.healthOf(scope), want) },
		"health of %s to begin with %q, it is %q", scope, want, func() any { return a.healthOf(scope) })
}

// eventually advances virtual time until the condition holds. Arguments of the message of type func() any are
// called when it fails, for the value at that time.
func eventually(t testing.TB, condition func() bool, msg string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		// Wait until all goroutines are idle, so that nothing changes while the condition is read.
		synctest.Wait()
		if condition() {
			return
		}
		if time.Now().After(deadline) {
			for i, arg := range args {
				if f, ok := arg.(func() any); ok {
					args[i] = f()
				}
			}
			t.Fatalf("waited "+patience.String()+" for "+msg, args...)
		}
	}
}

// pass advances virtual time by d and waits until all goroutines are idle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// transcript records a text that must be the same, byte for byte, with both implementations. The driver
// compares the records of both runs.
func transcript(t *testing.T, what, value string) {
	t.Helper()
	t.Attr("transcript", what+" "+strconv.Quote(value))
}

// waitResult has the results of WaitUntilReconciled.
type waitResult struct {
	revision, retryLowWatermark statedb.Revision
	err                         error
}

func wait(ctx context.Context, r reconciler.Reconciler[*service], until statedb.Revision) waitResult {
	revision, low, err := r.WaitUntilReconciled(ctx, until)
	return waitResult{revision, low, err}
}

// waitFor waits for at most patience.
func waitFor(t *testing.T, r reconciler.Reconciler[*service], until statedb.Revision) waitResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res := wait(ctx, r, until)
	require.NoError(t, res.err, "waiting for revision %d, at %d", until, res.revision)
	return res
}
