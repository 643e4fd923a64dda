// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// Config configures a [Controller]: see [New] and [Register]. It has no counterpart of
// [reconciler.Config].PanicPropagation: a panic is always an error of the request.
type Config[Req comparable] struct {
	// Name is the name of the loop (see [reconciler.WithName]). It has at most 22 lower-case letters,
	// digits, dashes and underscores, and begins with a letter. The tables of controller "apps" are
	// "requests-apps", "apps-outcomes" and "apps-mark", those of a controller without a name
	// "requests", "requests-outcomes" and "requests-mark". So a DB can have one controller without a
	// name, and a controller must not have the name of another loop that writes outcomes beside its
	// table, also not that of a table with such a loop.
	Name string
	// Reconciler is called with the requests. Required.
	Reconciler Reconciler[Req]
	// Sources produce the requests. If empty, requests come from [Controller.Add] only.
	Sources []Source[Req]
	// BeforeInitialized lets requests be reconciled before the tables of all sources are
	// initialised. If it is false, requests are Blocked until then: a Reconciler that creates what
	// the tables lack would create all of it again at every start.
	BeforeInitialized bool
	// KeyOf returns the key of a request. Different requests must have different keys. The key is the
	// primary key of the request's row, and names the request in Explain, the journal and logs. KeyOf
	// is called from several goroutines. It may be nil if Req is a string type, [Request] or
	// [NamespacedName]: the key is the text then, such as "shop/web" for [Request], with "/" and "\" of the
	// namespace escaped by "\".
	KeyOf func(req Req) index.Key

	// SerialBy returns the group of a request: see [reconciler.Config].SerialBy. nil means that
	// there are no groups.
	SerialBy func(req Req) string

	// DB has the tables. Required for [New]; [Register] takes it from its params.
	DB *statedb.DB
	// ModuleID, Log and Health are as in [reconciler.Config]. [Register] ignores them and uses
	// those of its params and jobs.
	ModuleID cell.FullModuleID
	Log      *slog.Logger
	Health   cell.Health

	// Options configure the loop. By default, requests that are Done are refreshed every 30
	// minutes, at most 100 a second: see [reconciler.WithRefreshing]. The controller never prunes,
	// since it has no target of its own.
	Options []reconciler.Option
}

// Controller calls a [Reconciler] with requests while it runs. Its methods are safe for concurrent
// use.
type Controller[Req comparable] struct {
	cfg   Config[Req]
	keyOf func(Req) index.Key
	table statedb.RWTable[*Row[Req]]
	byKey statedb.Index[*Row[Req], index.Key]
	loop  *reconciler.Loop[*Row[Req]]
	log   *slog.Logger
	// made is when the controller was made.
	made time.Time
	// primary is the name of the table of For, empty without one. tables are the tables of all
	// sources.
	primary string
	tables  []initializing
	jobs    []sideJob
	// released reports that requests need not wait for the tables any more.
	released atomic.Bool
	// claimed reports that Run was called, or that a hive runs the controller.
	claimed atomic.Bool
}

// following follows a table until ctx ends.
type following func(ctx context.Context, health cell.Health) error

// sideJob is a job that runs beside the loop.
type sideJob struct {
	name string
	run  following
}

// New returns a controller for programs and tests without a hive. It does nothing until
// [Controller.Run] is called. New adds the tables of the controller to the DB, unless it returns an
// error. The error names the mistakes that were found in the configuration.
//
// New locks no table that the DB had before.
func New[Req comparable](cfg Config[Req]) (*Controller[Req], error) {
	return build(cfg, reconciler.New[*Row[Req]])
}

// Register makes a controller and adds its jobs to the hive: those of the loop (see
// [reconciler.RegisterConfig]), and one for each source, named after its kind and its table. The
// controller's name is appended to each job name if it has one. DB, Log and ModuleID
// are taken from params; Health is that of the jobs. Register can be called before or after the
// hive has started. With [reconciler.WithRegistry] the controller's loop is in the registry.
func Register[Req comparable](params reconciler.Params, cfg Config[Req]) (*Controller[Req], error) {
	cfg.DB, cfg.Log, cfg.ModuleID = params.DB, params.Log, params.ModuleID
	c, err := build(cfg, func(cfg reconciler.Config[*Row[Req]]) (*reconciler.Loop[*Row[Req]], error) {
		return reconciler.RegisterConfig(params, cfg)
	})
	if err != nil {
		return nil, err
	}
	c.claimed.Store(true)
	for _, f := range c.jobs {
		params.JobGroup.Add(job.OneShot(f.name, func(ctx context.Context, health cell.Health) error {
			err := f.run(ctx, health)
			if errors.Is(err, guard.ErrGoexit) {
				// A hive drops the health of a job that has ended, and this health has to stay visible.
				<-ctx.Done()
			}
			return err
		}))
	}
	return c, nil
}

// build checks a configuration and makes a controller. newLoop makes its loop.
func build[Req comparable](
	cfg Config[Req],
	newLoop func(reconciler.Config[*Row[Req]]) (*reconciler.Loop[*Row[Req]], error),
) (*Controller[Req], error) {
	c := &Controller[Req]{
		cfg: cfg, keyOf: cfg.KeyOf, log: cfg.Log, made: time.Now(),
		byKey: rowIndex[Req](),
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

// now is the clock for the times of requests.
func (c *Controller[Req]) now() time.Duration { return time.Since(c.made) }

// The defaults of the refresh of requests that are Done.
const (
	refreshInterval = 30 * time.Minute
	refreshRate     = 100 // requests a second
)

// loopConfig returns the configuration of the loop.
func (c *Controller[Req]) loopConfig(db *statedb.DB, table statedb.RWTable[*Row[Req]]) reconciler.Config[*Row[Req]] {
	return reconciler.Config[*Row[Req]]{
		DB: db, Table: table,
		Operations: operations[Req]{c},
		ModuleID:   c.cfg.ModuleID, Log: c.cfg.Log, Health: c.cfg.Health,
		Options: slices.Concat(
			[]reconciler.Option{
				reconciler.WithName(c.cfg.Name), reconciler.WithoutPruning(),
				reconciler.WithRefreshing(refreshInterval, rate.NewLimiter(refreshRate, 1)),
			},
			c.cfg.Options,
		),
		SerialBy: c.serialBy(),
	}
}

// serialBy returns the function that groups rows, or nil without groups.
func (c *Controller[Req]) serialBy() func(*Row[Req]) string {
	if c.cfg.SerialBy == nil {
		return nil
	}
	return func(row *Row[Req]) string { return c.cfg.SerialBy(row.Request) }
}

// rehearse checks the names and the options by making a loop of a table in a private DB. A table
// cannot be removed from a DB, so the real ones are made only when nothing but a table of the same
// name, made meanwhile, can fail.
func (c *Controller[Req]) rehearse() error {
	db := statedb.New()
	table, err := statedb.NewTable(db, c.scoped("requests"), c.byKey)
	if err != nil {
		return fmt.Errorf("controller %q: %w", c.cfg.Name, err)
	}
	cfg := c.loopConfig(db, table)
	// Keep this loop out of the registry and the metrics.
	cfg.Options = append(cfg.Options, reconciler.WithRegistry(nil), reconciler.WithMetrics(nil))
	if _, err = reconciler.New(cfg); err != nil {
		return err
	}
	txn := c.cfg.DB.ReadTxn()
	for _, table := range db.GetTables(db.ReadTxn()) {
		if c.cfg.DB.GetTable(txn, table.Name()) != nil {
			return fmt.Errorf("controller %q: table %q: %w", c.cfg.Name, table.Name(), statedb.ErrDuplicateTable)
		}
	}
	return nil
}

// validName is the rule for names. The names of the tables follow statedb's rule then.
var validName = regexp.MustCompile(`^[a-z][a-z0-9_\-]{0,21}$`)

// prepare checks the configuration and sets the fields that are derived from it.
func (c *Controller[Req]) prepare() error {
	var errs []error
	if c.cfg.DB == nil {
		errs = append(errs, errors.New("Config.DB is nil"))
	}
	if running.IsNil(c.cfg.Reconciler) {
		errs = append(errs, errors.New("Config.Reconciler is nil"))
	}
	if c.cfg.Name != "" && !validName.MatchString(c.cfg.Name) {
		errs = append(errs, fmt.Errorf("Config.Name is %q, must match %s", c.cfg.Name, validName))
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
	return errors.Join(errs...)
}

// scoped returns a name with the name of the controller appended, if it has one.
func (c *Controller[Req]) scoped(name string) string {
	if c.cfg.Name == "" {
		return name
	}
	return name + "-" + c.cfg.Name
}

// Run reconciles requests until ctx ends. It then returns nil, after the outcomes of finished reconciliations have been
// written and all its goroutines have ended. A non-nil error means that it could not start, or that a function of the
// program called runtime.Goexit. Call it once, with a started DB, and not for a controller made by [Register].
func (c *Controller[Req]) Run(ctx context.Context) error {
	if c.claimed.Swap(true) {
		return fmt.Errorf("controller %q has been run already, or is run by a hive", c.cfg.Name)
	}
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

// Add requests one reconciliation of each of reqs, because of an event outside of any table, such
// as a webhook or the result of polling the target. It can be called before the controller runs and
// while it does. It calls KeyOf.
func (c *Controller[Req]) Add(reqs ...Req) {
	w := newWriter(c)
	for _, req := range reqs {
		w.add(silent, req)
	}
	w.flush()
}

// Loop returns the loop that reconciles the requests, for Explain, the journal, pauses, settings
// and waits.
func (c *Controller[Req]) Loop() *reconciler.Loop[*Row[Req]] { return c.loop }

// Table returns the table of requests: those that have work left, and those whose object is in the
// table of [For]. It is for reading.
func (c *Controller[Req]) Table() statedb.Table[*Row[Req]] { return c.table.ToTable() }
