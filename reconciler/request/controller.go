// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// Config is what a [Controller] is made from: see [New] and [Register].
type Config[Req comparable] struct {
	// Name tells controllers apart: it is that of the loop (see [reconciler.WithName]), and
	// with it the controller's table is "requests-" and the name, else "requests". So it
	// has at most 22 lower-case letters, digits, dashes and underscores. A DB can have one
	// controller without a name.
	Name string
	// Reconciler is called with the requests. Required.
	Reconciler Reconciler[Req]
	// Sources say when. None means that there are only the requests of
	// [Controller.Add].
	Sources []Source[Req]
	// BeforeInitialized lets requests be reconciled before the tables of all sources are
	// initialised. The default is that they wait, Blocked: a Reconciler that creates what the
	// tables lack would create all of it again at every start.
	BeforeInitialized bool
	// KeyOf returns the key of a request, different for different requests: it is the key of
	// the request's row and names the request in Explain, logs and metrics. nil is for
	// strings, [Request], [NamespacedName], and all types made of strings, numbers but
	// floating-point ones, and truth values. It is called from several goroutines.
	KeyOf func(req Req) index.Key

	// SerialBy returns the group of a request: see [reconciler.Config].SerialBy. nil means that there
	// are no groups.
	SerialBy func(req Req) string

	// DB is where the tables are. Required for New; Register takes it from the params.
	DB *statedb.DB
	// ModuleID, Log and Health are as in [reconciler.Config].
	ModuleID cell.FullModuleID
	Log      *slog.Logger
	Health   cell.Health

	// Options are those of the loop. What is Done is refreshed
	// every 30 minutes, at most 100 requests a second, unless [reconciler.WithRefreshing] says
	// otherwise. Nothing is pruned:
	// the controller has no target of its own.
	Options []reconciler.Option
}

// Controller hands requests to a [Reconciler], for as long as it runs. Its methods are safe
// from any goroutine.
type Controller[Req comparable] struct {
	cfg   Config[Req]
	keyOf func(Req) index.Key
	table statedb.RWTable[*Row[Req]]
	byKey statedb.Index[*Row[Req], index.Key]
	loop  *reconciler.Loop[*Row[Req]]
	log   *slog.Logger
	// primary is the table of For; none if empty. tables are those of all sources.
	primary string
	tables  []initializing
	jobs    []sideJob
	leaving *leaving
	// released: requests need not wait for the tables any more.
	released atomic.Bool
	// hidden are the requests of objects that are there and that no row was ever written for,
	// since predicates rejected them. The lock is that of the table of requests.
	hidden map[Req]struct{}
}

// following follows a table until ctx ends.
type following func(ctx context.Context, health cell.Health) error

// sideJob is a job of a controller beside its loop.
type sideJob struct {
	name string
	run  following
}

// New returns a controller that does nothing until [Controller.Run] is called, for programs
// and tests without a hive. It adds the table of requests to the DB, unless there is an error,
// which names everything that is wrong with the configuration.
func New[Req comparable](cfg Config[Req]) (*Controller[Req], error) {
	return build(cfg, reconciler.New[*Row[Req]])
}

// Register makes a controller and adds its jobs to the hive: those of the loop (see
// [reconciler.RegisterConfig]), one for each source, named after its kind and its table, and
// "forget", all with the controller's name appended if it has one. DB, Log and
// ModuleID are taken from params, Health is that of the jobs. It can be called before the
// hive has started and after. With [reconciler.WithRegistry] the controller is found by its
// loop.
func Register[Req comparable](params reconciler.Params, cfg Config[Req]) (*Controller[Req], error) {
	cfg.DB, cfg.Log, cfg.ModuleID = params.DB, params.Log, params.ModuleID
	c, err := build(cfg, func(cfg reconciler.Config[*Row[Req]]) (*reconciler.Loop[*Row[Req]], error) {
		return reconciler.RegisterConfig(params, cfg)
	})
	if err != nil {
		return nil, err
	}
	for _, f := range c.jobs {
		params.JobGroup.Add(job.OneShot(f.name, job.OneShotFunc(f.run)))
	}
	return c, nil
}

// build checks a configuration and makes a controller and, with newLoop, its loop.
func build[Req comparable](
	cfg Config[Req],
	newLoop func(reconciler.Config[*Row[Req]]) (*reconciler.Loop[*Row[Req]], error),
) (*Controller[Req], error) {
	c := &Controller[Req]{
		cfg: cfg, keyOf: cfg.KeyOf, log: cfg.Log,
		byKey: rowIndex[Req](), leaving: newLeaving(), hidden: map[Req]struct{}{},
	}
	c.released.Store(cfg.BeforeInitialized)
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("controller %q: %w", cfg.Name, err)
	}
	if err := c.rehearse(); err != nil {
		return nil, err
	}
	table, err := statedb.NewTable(cfg.DB, c.scoped("requests"), c.byKey)
	if err != nil {
		return nil, fmt.Errorf("controller %q: %w", cfg.Name, err)
	}
	c.table = table
	c.loop, err = newLoop(c.loopConfig(cfg.DB, table))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// How often the requests of what is Done are reconciled again, against drift.
const (
	refreshInterval = 30 * time.Minute
	refreshRate     = 100 // requests a second
)

// loopConfig returns what the loop is made from.
func (c *Controller[Req]) loopConfig(db *statedb.DB, table statedb.RWTable[*Row[Req]]) reconciler.Config[*Row[Req]] {
	return reconciler.Config[*Row[Req]]{
		DB: db, Table: table,
		Clone: (*Row[Req]).clone, SetStatus: (*Row[Req]).setStatus, GetStatus: (*Row[Req]).getStatus,
		Operations: operations[Req]{c},
		ModuleID:   c.cfg.ModuleID, Log: c.cfg.Log, Health: c.cfg.Health,
		Options: slices.Concat(
			[]reconciler.Option{
				reconciler.WithName(c.cfg.Name), reconciler.WithoutPruning(),
				reconciler.WithRefreshing(refreshInterval, rate.NewLimiter(refreshRate, 1)),
			},
			c.cfg.Options,
		),
		Merge: (*Row[Req]).merge, SerialBy: c.serialBy(),
	}
}

// serialBy returns the groups of rows, or nil if there are none.
func (c *Controller[Req]) serialBy() func(*Row[Req]) string {
	if c.cfg.SerialBy == nil {
		return nil
	}
	return func(row *Row[Req]) string { return c.cfg.SerialBy(row.Request) }
}

// rehearse returns what is wrong with the name or the options, by making a loop of a table
// that nobody sees: a DB never lets go of a table, so the real one is made when nothing can go
// wrong any more but that there is one of its name.
func (c *Controller[Req]) rehearse() error {
	db := statedb.New()
	table, err := statedb.NewTable(db, c.scoped("requests"), c.byKey)
	if err != nil {
		return fmt.Errorf("controller %q: %w", c.cfg.Name, err)
	}
	cfg := c.loopConfig(db, table)
	// This loop is to be in no registry and in nobody's figures.
	cfg.Options = append(cfg.Options, reconciler.WithRegistry(nil), reconciler.WithMetrics(nil))
	_, err = reconciler.New(cfg)
	return err
}

// prepare checks the configuration and sets what follows from it.
func (c *Controller[Req]) prepare() error {
	var errs []error
	if c.cfg.DB == nil {
		errs = append(errs, errors.New("Config.DB is nil"))
	}
	if c.cfg.Reconciler == nil {
		errs = append(errs, errors.New("Config.Reconciler is nil"))
	}
	if c.keyOf == nil {
		var err error
		c.keyOf, err = keyOf[Req]()
		errs = append(errs, err)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.log = c.log.With("controller", c.cfg.Name)
	names := map[string]int{}
	for i, s := range c.cfg.Sources {
		if s == nil {
			errs = append(errs, fmt.Errorf("Config.Sources[%d] is nil", i))
			continue
		}
		name, run, err := s.prepare(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("Config.Sources[%d]: %w", i, err))
			continue
		}
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s-%d", name, names[name])
		}
		c.jobs = append(c.jobs, sideJob{c.scoped(name), run})
	}
	c.jobs = append(c.jobs, sideJob{c.scoped("forget"), c.forget})
	return errors.Join(errs...)
}

// scoped returns a name with that of the controller appended, if it has one.
func (c *Controller[Req]) scoped(name string) string {
	if c.cfg.Name == "" {
		return name
	}
	return name + "-" + c.cfg.Name
}

// Run reconciles requests until ctx ends, and returns nil then, when the outcomes of
// finished reconciliations are in the table and all its goroutines have ended; any other
// error means that it could not start. It is to be called once, and not if the controller
// was made by [Register]. The DB has to be started.
func (c *Controller[Req]) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg   sync.WaitGroup
		errs = make([]error, len(c.jobs)+1)
	)
	for i, f := range c.jobs {
		wg.Go(func() {
			if errs[i] = f.run(ctx, c.health(f.name)); errs[i] != nil {
				cancel()
			}
		})
	}
	errs[len(c.jobs)] = c.loop.Run(ctx)
	cancel()
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Controller[Req]) health(name string) cell.Health {
	if c.cfg.Health == nil {
		return nil
	}
	return c.cfg.Health.NewScope(name)
}

// Add asks for requests to be reconciled, once each, because of something that is in no
// table, such as a webhook or what a poll of the target found. It can be called before the
// controller runs and while it does. KeyOf is called in it.
func (c *Controller[Req]) Add(reqs ...Req) {
	w := newWriter(c)
	for _, req := range reqs {
		w.add(silent, req)
	}
	w.flush()
}

// Loop returns the loop that works on the requests: with it come Explain, the journal,
// pauses, settings that change, and ways to wait.
func (c *Controller[Req]) Loop() *reconciler.Loop[*Row[Req]] { return c.loop }

// Table returns the table of requests: those that are to be reconciled, and those of which
// [For] has the object. It is for reading.
func (c *Controller[Req]) Table() statedb.Table[*Row[Req]] { return c.table.ToTable() }
