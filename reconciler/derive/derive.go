// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/chain"
	"github.com/statekeel/statekeel/internal/changes"
	"github.com/statekeel/statekeel/internal/claims"
	"github.com/statekeel/statekeel/internal/edges"
	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/problems"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Config configures a derivation: see [Each] and [Best].
type Config[Out any] struct {
	// Name is the name of the derivation: of its job, in health and in the registry. It should be unique
	// in the program. Empty means "derive-" and the name of the output table.
	Name string
	// DB holds all tables. Required.
	DB *statedb.DB

	// Same reports whether two output rows are equal, so that the derived one is not written. If the
	// rows carry a status, it must not compare that. nil means reflect.DeepEqual.
	Same func(current, derived Out) bool
	// Merge returns the row to write when the output has a row that is not the same: the derived row with
	// what has to be kept of the current one, such as the status of another reconciler. The result must
	// be a new row, with the same key. nil means that the derived row is written as it is. Then a status
	// that a reconciler writes at the same time may be lost with the row that it was written for.
	//
	// Same and Merge are called with the output locked if its row changes while they are called without,
	// so they should be quick, and must not write tables.
	Merge func(current, derived Out) Out

	// Log receives the first of equal errors of a row. nil means no log.
	Log *slog.Logger
	// Health receives the health of the derivation in the scope of its name. nil means that health is
	// not reported. It is not used by [Derived.AddTo].
	Health cell.Health
	// Registry has the derivation while it runs, so that commands and pages find it; nil for none.
	Registry *inspect.Registry
}

// Derived is a derivation: the state that [Each] and [Best] make, and that [Derived.Run] keeps up to
// date. It implements [inspect.Controller]; the objects are the rows of the input. Its methods are
// safe from any goroutine, but not from the functions of the derivation.
//
// Beside the tables it takes about 245 bytes for each input row, if each wants one output row, two want the same, and keys
// have 8 bytes; plus the output rows that lose, and old versions of input rows that fail; with short keys at most 100 bytes
// for each look-up, and 110 for an input row with some. With further inputs, the snapshot of the last round keeps what was
// replaced or deleted since in all tables of the database: 5 kB for each change far from others, and one more copy of the
// tables at most. While the derivation runs that is what a round takes, or 10 s; and all since it was paused or has ended,
// until [Derived.Close]. With a Registry, what rows no longer lead to is remembered until it is gone from the targets, 2 MB
// at most if keys are short: see [inspect.Registry.InForce].
type Derived[In, Out any] struct {
	member
	cfg    Config[Out]
	in     *rows.Rows[In]
	out    *rows.Rows[Out]
	output statedb.RWTable[Out]
	f      func(*Reader, In) ([]Out, error)
	// rank returns the rank of a row; nil if no row is better than another.
	rank func(*Reader, In) (claims.Rank, error)
	// tables are the input and the tables of further inputs, each once.
	tables []statedb.TableMeta
	names  []string
	// maxRows bounds the rows of a transaction; tests change it.
	maxRows int

	// wake ends a wait of the run. running is held by a run, which owns the fields up to mu: they outlive
	// a run, so that no change is lost when the derivation is run again.
	wake    signal.Signal
	running sync.Mutex
	main    changes.Table[In]
	joins   joins
	// followed are main and the tables of the further inputs.
	followed []following
	// read has the revisions of tables up to which all is derived, and at is their sum: snapshots of a database follow
	// one another, so the later one has the higher sum.
	read []statedb.Revision
	at   statedb.Revision
	// prune: rows of the output that no input wants have to be found. pruned: that was done. Until then, nothing has
	// the keys of the rows that were derived to nothing: no row of the output is their own.
	prune, pruned bool
	nothing       map[string]struct{}
	// healed are the keys of rows whose error ends when what is derived from them has been written.
	healed map[string]struct{}
	// recheck fires when outputs in error are compared again; nil if none was in error.
	recheck <-chan time.Time
	// published is the table of the inputs of the output, and claim is the right to be the only one.
	// initialized: the initialiser of the output has ended. wroteLast is the revision of the output after
	// the last write, reached is what was published last.
	published   *inputs.Table
	claim       inputs.Claims
	initialized bool
	wroteLast   statedb.Revision
	reached     reached

	// began is when the last round began, and changed by when the changes were made that are not read; zero if it may be when
	// the next one begins.
	began, changed time.Time
	// inRound is full in a round, and while others look at what belongs to the run: see between. settled: the last round has
	// ended, so that the output is what claims and edges say. times has when revisions of the tables were derived.
	inRound chan struct{}
	settled bool
	times   []ledger.Times

	// function is the function of the program that the run has called.
	function guard.Running
	// reporting guards reported.
	reporting sync.Mutex
	reported  reported

	mu     sync.Mutex
	claims claims.Set[In, Out]
	// failed has the errors of input rows, by their keys, wrong those of places, and joined those of rows of further
	// inputs, by TABLE/KEY.
	failed, wrong, joined problems.Set
	// late: a reader was used after its call, so that what the running call has looked up is in doubt.
	late     bool
	calls    calls
	progress settledUpTo
}

// reached is what the table of inputs says, if told is true: the sum of the revisions of the inputs that the
// output includes, and the number of rows that are in error.
type reached struct {
	told   bool
	at     statedb.Revision
	failed int
}

// settledUpTo is what a derivation has reached.
type settledUpTo struct {
	// condition is one of NotStarted, Running and Stopped.
	condition inspect.Condition
	started   time.Time
	// read has the revisions of tables up to which all is derived and written, and at is their sum. errors is
	// the version of the errors then. changed is closed when one of them changes.
	read    []statedb.Revision
	at      statedb.Revision
	errors  uint64
	changed chan struct{}
	// derived and failed count the input rows that were derived, and those that failed. calls counts the calls for
	// changes of each table.
	derived, failed uint64
	calls           []int
}

// Each returns a derivation whose output has the rows that f returns for each row of the input. Nothing
// happens until it runs.
//
// f must depend on its argument alone, and must return new rows or rows that never change. It is
// called by one goroutine at a time, for each change of a row; several changes may be one. No rows are
// no error: the input row derives nothing.
//
// Two input rows should not derive the same output key. If they do, the row with the lower key (in the
// order of bytes) is in the output, and health has an error; [Best] is for that. When the one in the
// output goes, the other takes its place.
//
// in and out must be different tables of Config.DB. Nothing else may insert or delete rows of out, and a
// second derivation or source of it is an error until [Derived.Close]. The name of out, with "-inputs",
// must have at most 31 characters: that table has a row with the name of in, which says up to which
// revision of in the rows of out are derived. Each locks in and out for a moment: the caller must not
// hold a write transaction of them. The error names everything that is wrong with the arguments.
//
// The initialiser of out is registered at once: make the derivations of a chain before they run.
func Each[In, Out any](
	cfg Config[Out], in statedb.Table[In], out statedb.RWTable[Out], f func(row In) ([]Out, error),
) (*Derived[In, Out], error) {
	return build(cfg, in, out, alone(f), nil, nil)
}

// EachOf returns a derivation like [Each] with further inputs: f looks rows of other tables up through its reader, and
// is called again for a row when what it has looked up changes. It must depend on its row and on what it looks up
// alone. See [Joined] and [Lookup].
//
// What is in the output follows from one snapshot of all inputs, and changes of one snapshot are gathered: f is called
// once for a row, however many of them concern it. If f fails, it is called again after a change of what that call has
// looked up, or of what the last call did that had not failed.
//
// f is first called when the tables of the further inputs are initialised, except in: before, it would miss rows. A
// further input may be of in, but not of out, nor of a table that is derived from out by a derivation that is not closed.
// A row of a further input at which an index panics is in error, with the key TABLE/KEY, until it changes.
func EachOf[In, Out any](
	cfg Config[Out], in statedb.Table[In], out statedb.RWTable[Out], f func(r *Reader, row In) ([]Out, error), inputs ...further,
) (*Derived[In, Out], error) {
	return build(cfg, in, out, f, nil, inputs)
}

// alone returns f with a reader that it does not use.
func alone[In, Out any](f func(In) ([]Out, error)) func(*Reader, In) ([]Out, error) {
	if f == nil {
		return nil
	}
	return func(_ *Reader, row In) ([]Out, error) { return f(row) }
}

// Best returns a derivation like [Each], with a rank for each input row: of the rows that derive the same
// output key, the place, the one with the lowest rank is in the output, and that others lose is no error.
// Among equal ranks the lower key wins. [Derived.Explain] names the winner and ten losers.
//
// rank must depend on its argument alone. It is called after f, once, if that returned a row. If it panics,
// or returns NaN, that is an error of the input row, as if f had failed. A row whose highest value is to win
// has the negative value as its rank; for an order by two values make one of them: distance<<32 + metric.
func Best[In, Out any, Rank cmp.Ordered](
	cfg Config[Out], in statedb.Table[In], out statedb.RWTable[Out], f func(row In) ([]Out, error), rank func(row In) Rank,
) (*Derived[In, Out], error) {
	if rank == nil {
		return BestOf[In, Out, Rank](cfg, in, out, alone(f), nil)
	}
	return BestOf(cfg, in, out, alone(f), func(_ *Reader, row In) Rank { return rank(row) })
}

// BestOf is [Best] with further inputs, as [EachOf] is [Each] with them. The rank may depend on what it looks up, too.
func BestOf[In, Out any, Rank cmp.Ordered](
	cfg Config[Out], in statedb.Table[In], out statedb.RWTable[Out], f func(r *Reader, row In) ([]Out, error),
	rank func(r *Reader, row In) Rank, inputs ...further,
) (*Derived[In, Out], error) {
	if rank == nil {
		return build(cfg, in, out, f, nil, inputs, errors.New("the rank function is nil"))
	}
	return build(cfg, in, out, f, rankBy(rank), inputs)
}

func rankBy[In any, Rank cmp.Ordered](of func(*Reader, In) Rank) func(*Reader, In) (claims.Rank, error) {
	return func(r *Reader, row In) (claims.Rank, error) {
		value := of(r, row)
		if value != value {
			return nil, errors.New("its rank is NaN")
		}
		return claims.By(value), nil
	}
}

func build[In, Out any](
	cfg Config[Out], in statedb.Table[In], out statedb.RWTable[Out], f func(*Reader, In) ([]Out, error),
	rank func(*Reader, In) (claims.Rank, error), joined []further, errs ...error,
) (*Derived[In, Out], error) {
	missing := func(isNil bool, argument string) {
		if isNil {
			errs = append(errs, fmt.Errorf("%s is nil", argument))
		}
	}
	missing(cfg.DB == nil, "Config.DB")
	missing(in == nil, "the input table")
	missing(out == nil, "the output table")
	missing(f == nil, "the function")
	var tables []statedb.TableMeta
	if cfg.DB != nil && in != nil && out != nil {
		tables = tablesOf(cfg.DB, in, out, joined, &errs)
	}
	if cfg.Name == "" && out != nil {
		cfg.Name = "derive-" + out.Name()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("derive: Config.Name %q: %w", cfg.Name, err)
	}
	if cfg.Same == nil {
		cfg.Same = func(current, derived Out) bool { return reflect.DeepEqual(current, derived) }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("derivation", cfg.Name)
	d := &Derived[In, Out]{
		cfg: cfg, in: rows.NewBeside(cfg.DB, in), out: rows.NewBeside(cfg.DB, out.ToTable()), output: out, f: f, rank: rank,
		tables: tables, read: make([]statedb.Revision, len(tables)), main: changes.Table[In]{Table: in},
		joins:   joins{further: joined, edges: edges.New(), again: map[string]*edges.Cause{}},
		maxRows: maxRows, wake: signal.New(), healed: map[string]struct{}{}, nothing: map[string]struct{}{},
		claims: claims.New[In, Out](), failed: problems.New(), wrong: problems.New(), joined: problems.New(), calls: calls{again: newAgain()},
		inRound: make(chan struct{}, 1),
		progress: settledUpTo{
			condition: inspect.ConditionNotStarted, read: make([]statedb.Revision, len(tables)), changed: make(chan struct{}),
			calls: make([]int, len(tables)),
		},
	}
	d.joins.late, d.joins.lose = d.usedLate, d.lose
	if cfg.Registry != nil { // else what rows no longer lead to is not known
		d.member = chain.Hide[chain.Part](part[In, Out]{d})
	}
	d.times = make([]ledger.Times, len(tables))
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	return d, nil
}

// tablesOf returns the tables of all inputs, each once, that of in first, and adds everything that is wrong with them.
func tablesOf(db *statedb.DB, in, out statedb.TableMeta, joined []further, errs *[]error) (tables []statedb.TableMeta) {
	check := func(wrong bool, format string, args ...any) {
		if wrong {
			*errs = append(*errs, fmt.Errorf(format, args...))
		}
	}
	txn := db.ReadTxn()
	foreign := func(table statedb.TableMeta) bool { return db.GetTable(txn, table.Name()) != table }
	check(foreign(out), "the output table %q is not a table of Config.DB", out.Name())
	check(foreign(in), "the input table %q is not a table of Config.DB", in.Name())
	check(in.Name() == out.Name(), "the input and the output are the same table %q", in.Name())
	check(len(joined) > maxJoined, "there are %d further inputs, at most %d are allowed", len(joined), maxJoined)
	tables = []statedb.TableMeta{in}
	for i, one := range joined {
		err := errors.New("it is nil")
		if one != nil {
			err = one.wrong()
		}
		if err != nil {
			check(true, "further input %d: %w", i+1, err)
			continue
		}
		table := one.meta()
		check(foreign(table), "further input %d: the table %q is not a table of Config.DB", i+1, table.Name())
		check(table.Name() == out.Name(), "further input %d: it is the output table %q", i+1, table.Name())
		check(slices.Index(joined, one) < i, "further input %d: it is given twice", i+1)
		if !slices.Contains(tables, table) {
			tables = append(tables, table)
		}
	}
	return tables
}

// maxJoined bounds the further inputs: an edge has the number of one in a byte.
const maxJoined = 255

// tableOf returns the number of the table of a further input.
func (d *Derived[In, Out]) tableOf(one further) int { return slices.Index(d.tables, one.meta()) }

// open claims the output, registers its initialisers, and begins to follow the inputs.
func (d *Derived[In, Out]) open() (err error) {
	if d.published, err = inputs.Open(d.cfg.DB, d.output.Name()); err != nil {
		return err
	}
	for _, table := range d.tables {
		d.names = append(d.names, table.Name())
	}
	wtxn := d.cfg.DB.WriteTxn(append(slices.Clone(d.tables), d.output, d.published.Meta())...)
	defer wtxn.Abort()
	if d.claim, err = d.published.ClaimTables(d.cfg.DB, wtxn, d.output, d.names); err != nil {
		return fmt.Errorf("table %q: %w", d.output.Name(), err)
	}
	// These cannot fail: the tables are locked.
	err = d.main.Open(wtxn)
	d.followed = []following{&d.main}
	for i, one := range d.joins.further {
		err = cmp.Or(err, one.open(wtxn, &d.joins, i))
		d.followed = append(d.followed, one.follow())
	}
	if err != nil {
		d.claim.Release()
		return err
	}
	wtxn.Commit()
	if d.claim.Succeed() {
		d.joins.lost.Forget()
	}
	return nil
}

// Run derives until ctx ends, and returns nil then. It may be called again after that: it continues
// with what changed meanwhile, and compares the whole output first. It returns an error if the
// derivation is running already, after [Derived.Close], and if a function of the program calls runtime.Goexit.
func (d *Derived[In, Out]) Run(ctx context.Context) error {
	health := d.cfg.Health
	if health != nil {
		health = health.NewScope(d.cfg.Name)
	}
	return d.run(ctx, health)
}

// AddTo adds a job to a hive that runs the derivation and closes it at the end. The job has the name of
// the derivation, and reports its health. AddTo may be called before and after the hive has started.
func (d *Derived[In, Out]) AddTo(group job.Group) {
	group.Add(job.OneShot(d.cfg.Name, func(ctx context.Context, health cell.Health) error {
		err := d.run(ctx, health)
		if errors.Is(err, guard.ErrGoexit) {
			// A hive drops the health of a job that has ended, and this health has to stay visible.
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			d.Close()
		}
		return err
	}))
}

// Close releases the inputs. Until then they keep deleted rows in memory that were not read, and a derivation with
// further inputs that does not run, or is paused, keeps the rows of its last snapshot. The
// derivation cannot be run again, and the output stays as it is. Close waits for a running Run, so end
// its context first. It locks the inputs for a moment. It may be called more than once.
func (d *Derived[In, Out]) Close() {
	d.running.Lock()
	defer d.running.Unlock()
	if d.main.Iterator != nil {
		for _, table := range d.followed {
			table.Close()
		}
		d.mu.Lock()
		d.joins.last = nil
		d.mu.Unlock()
		d.claim.Release()
		d.stopped()
	}
}
