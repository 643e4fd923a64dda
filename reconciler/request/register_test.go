// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/request"
)

// In a hive the controller runs as jobs, with names that operators see.
func TestARegisteredControllerRunsAsJobsOfTheHive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &env{T: t}
		var (
			health   *cell.SimpleHealth
			registry *inspect.Registry
		)
		h := hive.New(
			statedb.Cell, job.Cell, cell.SimpleHealthCell, inspect.Cell,
			cell.Module("test", "Test",
				cell.Provide(job.Registry.NewGroup),
				cell.Invoke(func(p reconciler.Params, r *inspect.Registry, s *cell.SimpleHealth) (err error) {
					e.db, health, registry = p.DB, s, r
					e.tables()
					e.controller, err = request.Register(p, config{
						Name: "apps", Reconciler: e,
						Options: []reconciler.Option{reconciler.WithRegistry(r)},
						Sources: from{request.For(e.apps, (*app).request), request.Owns(e.pods, (*pod).owner),
							request.Owns(e.pods, func(p *pod) (request.Request, bool) {
								if p.Name == "goexit" {
									runtime.Goexit()
								}
								return p.owner()
							})},
					})
					return err
				}),
			),
		)
		require.NoError(t, h.Start(hivetest.Logger(t), t.Context()))
		require.Equal(t, 30*time.Minute, e.controller.Loop().Settings().RefreshInterval)
		e.put("web", 1)
		e.putPod("api-1", "api")
		require.Contains(t, e.took(), "shop/web")
		require.Equal(t, rows{"shop/web": "Done"}, e.rows())

		for job, message := range map[string]string{
			"job-for-apps-apps": `OK, following table "apps"`, "job-owns-pods-apps": `OK, following table "pods"`,
			"job-owns-pods-2-apps": `OK, following table "pods"`, "job-reconcile-apps": "OK, 1 object(s)",
		} {
			h := health.GetChild(job)
			require.NotNil(t, h, job)
			require.Equal(t, cell.StatusOK, h.Level, job)
			require.Equal(t, message, h.Status, job)
		}
		e.putPod("goexit", "api")
		require.Equal(t, []string{"shop/api"}, e.took(), "the other sources go on")
		ended := health.GetChild("job-owns-pods-2-apps")
		require.NotNil(t, ended)
		require.Equal(t, `following table "pods" has ended`, ended.Status)
		require.EqualError(t, ended.Error, "a function of the program called runtime.Goexit")
		found, err := registry.Find("test/apps")
		require.NoError(t, err)
		require.Equal(t, "requests-apps", found.ID().Table)
		require.EqualError(t, e.controller.Run(t.Context()), `controller "apps" has been run already, or is run by a hive`)
		require.NoError(t, h.Stop(hivetest.Logger(t), t.Context()))
	})
}

// A second Run returns an error and leaves the first one alone.
func TestASecondRunIsAnError(t *testing.T) {
	inBubble(t, func(e *env) {
		require.EqualError(e, e.controller.Run(e.Context()), `controller "" has been run already, or is run by a hive`)
		e.put("web", 1)
		require.Equal(e, []string{"shop/web"}, e.took())
	}, nil)
}

func TestTheErrorNamesEveryMistake(t *testing.T) {
	db := statedb.New()
	apps := statedb.MustNewTable(db, "apps", appIndex)
	_, err := request.New(config{
		Name: "1st",
		Sources: from{
			nil, request.For[request.Request, *app](nil, nil), request.Owns[request.Request](apps, nil),
			request.Watches[request.Request](apps, nil), request.For(apps, (*app).request, nil),
			request.For(apps, (*app).request), request.For(apps, (*app).request),
			request.Owns(apps, func(*app) (r request.Request, owned bool) { return r, false },
				request.ChangesOf[*app, int](nil), request.ChangesOfFunc(func(a *app) int { return a.Seen }, nil)),
		},
	})
	require.EqualError(t, err, `controller "1st": Config.DB is nil
Config.Reconciler is nil
Config.Name is "1st", must match ^[a-z][a-z0-9_\-]{0,21}$
Config.Sources[0] is nil
Config.Sources[1]: for: the table is nil
the requestOf function is nil
Config.Sources[2]: owns: the ownerOf function is nil
Config.Sources[3]: watches: the requestsOf function is nil
Config.Sources[4]: for: predicate 0 is nil
Config.Sources[6]: for: both table "apps" and table "apps" are primary
Config.Sources[7]: owns: predicate 0 is nil
predicate 1 is nil`)
	_, err = request.New(config{DB: db, Reconciler: request.Func[request.Request](nil)})
	require.EqualError(t, err, `controller "": Config.Reconciler is nil`)
}

// A table cannot be removed from a DB: the next try with another name would leave one more. Only running controllers
// are in the registry and the metrics.
func TestAnInvalidConfigurationLeavesNoTable(t *testing.T) {
	db := statedb.New()
	apps := statedb.MustNewTable(db, "apps", appIndex)
	_, err := reconciler.New(reconciler.Config[*app]{
		DB: db, Table: apps, Operations: reconcilertest.NewTarget((*app).key, nil),
	})
	require.NoError(t, err)
	before := tablesOf(db)
	var (
		registry inspect.Registry
		longest  = strings.Repeat("a", 22)
	)
	try := func(name string, concurrency int) error {
		_, err := request.New(config{
			DB: db, Reconciler: &env{}, Name: name, Sources: from{request.For(apps, (*app).request)},
			Options: []reconciler.Option{reconciler.WithRegistry(&registry), reconciler.WithMetrics(metrics.NewExpVar()),
				settings(func(s *reconciler.Settings) { s.Concurrency = concurrency })},
		})
		require.Empty(t, registry.All())
		return err
	}
	require.ErrorContains(t, try("shop", -1), "Settings.Concurrency is -1, must be between 1 and 10000")
	require.ErrorContains(t, try(longest+"a", 1), "must match ^[a-z]")
	err = try("apps", 1)
	require.ErrorIs(t, err, statedb.ErrDuplicateTable, "the loop of the table has the name")
	require.ErrorContains(t, err, `controller "apps": table "apps-`)
	require.Equal(t, before, tablesOf(db))

	require.NoError(t, try("shop", 1))
	require.NoError(t, try(longest, 1))
	require.Subset(t, tablesOf(db), []string{"requests-shop", "shop-mark", "shop-outcomes"})
	require.ErrorIs(t, try("shop", 1), statedb.ErrDuplicateTable)
}

func tablesOf(db *statedb.DB) (names []string) {
	for _, table := range db.GetTables(db.ReadTxn()) {
		names = append(names, table.Name())
	}
	return names
}

// Without a hive, health and metrics come from the configuration, with its ModuleID.
func TestAControllerReportsToTheConfiguredHealthAndMetrics(t *testing.T) {
	health, reported := cell.NewSimpleHealth()
	figures := metrics.NewExpVar()
	inBubble(t, func(e *env) {
		e.doing(returning(request.Result{}, errors.New("no quota")))
		e.put("web", 1)
		require.Equal(e, []string{"shop/web"}, e.took())
		following := reported.GetChild("for-apps")
		require.NotNil(e, following)
		require.Equal(e, `OK, following table "apps"`, following.Status)
		loop := reported.GetChild("reconcile")
		require.Equal(e, cell.StatusDegraded, loop.Level)
		require.ErrorContains(e, loop.Error, "no quota")
		require.Equal(e, "1", figures.ReconciliationTotalErrorsVar.Get("test.module").String())
	}, func(_ *env, cfg *config) {
		cfg.ModuleID, cfg.Health = cell.FullModuleID{"test", "module"}, health
	}, reconciler.WithMetrics(figures))
}

func TestAControllerIsMadeWhileItsSourceIsLocked(t *testing.T) {
	db := statedb.New()
	apps := statedb.MustNewTable(db, "apps", appIndex)
	defer db.WriteTxn(apps).Abort()
	_, err := request.New(config{DB: db, Reconciler: &env{}, Sources: from{request.For(apps, (*app).request)}})
	require.NoError(t, err)
}

func TestAProgramMayMakeTheKeys(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		require.Equal(e, rows{"key of web": "Done"}, e.rows())
	}, func(_ *env, cfg *config) {
		cfg.KeyOf = func(req request.Request) index.Key { return index.String("key of " + req.Name) }
	})
}

// db/show prints the tables of requests and of outcomes: they must not contain unescaped text from outside.
func TestHostileTextsAreEscapedInTheTables(t *testing.T) {
	const hostile = "a\x1b[31m\n<<end>>\x00"
	inBubble(t, func(e *env) {
		e.doing(returning(request.Result{}, errors.New("refused "+hostile)))
		e.put(hostile, 1)
		require.Len(e, e.took(), 1)
		shown := ""
		for row := range e.controller.Table().All(e.db.ReadTxn()) {
			shown += strings.Join(row.TableRow(), "")
		}
		for row := range e.controller.Loop().Outcomes().All(e.db.ReadTxn()) {
			shown += strings.Join(row.TableRow(), "")
		}
		require.Contains(e, shown, "shop/a")
		require.Contains(e, shown, "refused")
		require.False(e, strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", shown)
	}, nil)
}

// The logger names the request, even if the program derives another context.
func TestTheLoggerNamesTheRequest(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(ctx context.Context, _ request.Request) (request.Result, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			request.Logger(ctx).InfoContext(ctx, "reconciling")
			return request.Result{}, ctx.Err()
		})
		e.put("web", 1)
		e.took()
		require.Contains(e, e.log.String(), `msg=reconciling controller=shops request=shop/web`)
	}, func(_ *env, cfg *config) { cfg.Name = "shops" })
	require.Same(t, slog.Default(), request.Logger(t.Context()), "outside of Reconcile")
}
