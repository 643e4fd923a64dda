// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/source"
)

// The scripts in testdata show the commands at work; read them as examples.
func TestScripts(t *testing.T) {
	harness.RunScripts(t, func(t *testing.T) (map[string]script.Cmd, func()) {
		w := newWorld(t)
		return w.commands(), w.stop
	})
}

// machine is a row of the scripts and of the scenes of docs/OPERATIONS.md: a managed resource, or a route, of which only
// the name, the size and the status count.
type machine struct {
	managed.Meta
	Size   int
	Status reconciler.Status
}

func (m *machine) Clone() *machine                        { c := *m; return &c }
func (m *machine) SetStatus(s reconciler.Status) *machine { m.Status = s; return m }
func (m *machine) GetStatus() reconciler.Status           { return m.Status }

func (m *machine) TableHeader() []string {
	return []string{"Name", "External", "Synced", "Ready", "Deleted", "Message"}
}

func (m *machine) TableRow() []string {
	deleted := "no"
	if managed.WasDeleted(m) {
		deleted = m.DeletionTime.UTC().Format(time.TimeOnly)
	}
	synced, ready := m.GetCondition(managed.TypeSynced), m.GetCondition(managed.TypeReady)
	return []string{
		m.Name, cmp.Or(managed.GetExternalName(m), "-"), string(synced.Reason), string(ready.Reason), deleted,
		cmp.Or(synced.Message, "-"),
	}
}

func machineNamed(name string) *machine {
	return &machine{Meta: managed.Meta{Meta: object.Meta{Name: name}}}
}

var byName = statedb.Index[*machine, string]{
	Name: "name", Unique: true, FromKey: index.String, FromString: index.FromString,
	FromObject: func(m *machine) index.KeySet { return index.NewKeySet(index.String(m.Name)) },
}

// world is a hive with a table of routes and one of managed machines, and with the additional commands of the scripts.
type world struct {
	*testing.T
	hive     *hive.Hive
	log      *slog.Logger
	params   reconciler.Params
	registry *inspect.Registry
	recorder event.Recorder
	started  bool

	routes   statedb.RWTable[*machine]
	target   *target
	markInit func(statedb.WriteTxn)

	source *source.Sink[*machine]
	lists  uint64
	apps   statedb.RWTable[*machine]

	machines managed.Writer[*machine]
	cloud    *cloud
}

func newWorld(t *testing.T) *world {
	w := &world{
		T: t, log: slog.New(slog.DiscardHandler), target: newTarget(),
		cloud: &cloud{has: map[string]int{}, failures: map[string]string{}},
	}
	w.hive = hive.New(
		statedb.Cell, job.Cell, cell.SimpleHealthCell, inspect.Cell, commands.Cell, event.Cell,
		cell.Module("test", "Test",
			cell.Provide(job.Registry.NewGroup),
			cell.Invoke(func(p reconciler.Params, r *inspect.Registry, recorder event.Recorder, lc cell.Lifecycle) (err error) {
				w.params, w.registry, w.recorder = p, r, recorder
				lc.Append(cell.Hook{OnStart: func(cell.HookContext) error { w.started = true; return nil }})
				w.routes, err = statedb.NewTable(p.DB, "routes", byName)
				require.NoError(t, err)
				wtxn := p.DB.WriteTxn(w.routes)
				w.markInit = w.routes.RegisterInitializer(wtxn, "kubernetes")
				wtxn.Commit()
				return nil
			}),
		),
	)
	return w
}

// stop releases hanging operations, and stops the hive if it was started.
func (w *world) stop() {
	w.target.release()
	if w.source != nil {
		w.source.Close()
	}
	if w.started {
		require.NoError(w, w.hive.Stop(w.log, w.Context()))
	}
}

func (w *world) commands() map[string]script.Cmd {
	return harness.Commands(w, w.hive, w.log, map[string]script.Cmd{
		"reconcile":   harness.Command("Register a reconciler of the routes", "option=value...", w.register),
		"mark-init":   harness.Command("Mark the table initialised", "", w.initialize),
		"put":         harness.Command("Insert routes, pending if they have a value", "name[=value]...", w.put),
		"put-pending": harness.Command("Insert many routes", "prefix count", w.putMany),
		"remove":      harness.Command("Delete routes", "name...", w.remove),
		"fill":        harness.Command("Replace what the source of the routes has", "name=value...", w.fill),
		"reject":      harness.Command("Report a problem of the source", "text name...", w.reject),
		"derive":      harness.Command("Derive the routes from apps", "", w.chain),
		"apps":        harness.Command("Set the apps", "name=size...", w.setApps),
		"outcome":     harness.Command("Set what operations on a route return", "name|* outcome [text]", w.target.setOutcome),
		"release":     harness.Command("Release blocked and hanging operations", "", w.target.releaseAll),
		"expect-ops":  harness.Command("Compare the operations since the last comparison", "op...", w.target.expect),
		"holds":       harness.Command("Print the routes of the target", "", w.target.print),
		"leave":       harness.Command("Put a route into the target", "name=value", w.target.leave),

		"manage":             harness.Command("Register a reconciler of the machines", "", w.manage),
		"want":               harness.Command("Apply machines", "name=size...", w.want),
		"cloud":              harness.Command("Make calls fail with a text", "call [text]", w.cloud.setFailure),
		"machines/delete":    harness.Command("Delete a machine", "name", w.removeMachine),
		"machines/decide":    harness.Command("Decide on an unsure create", "name [id]", w.decide),
		"machines/pause":     w.editing(func(m *machine) { managed.SetPaused(m, true) }),
		"machines/resume":    w.editing(func(m *machine) { managed.SetPaused(m, false) }),
		"machines/orphan":    w.editing(func(m *machine) { managed.SetDeletionPolicy(m, managed.DeletionOrphan) }),
		"machines/reconcile": w.editing(func(m *machine) { managed.RequestReconcile(m, time.Now().String()) }),
	})
}

func (w *world) initialize([]string) (string, error) {
	wtxn := w.params.DB.WriteTxn(w.routes)
	defer wtxn.Commit()
	w.markInit(wtxn)
	return "", nil
}

func (w *world) put(args []string) (string, error) {
	var routes []*machine
	for _, arg := range args {
		if !strings.Contains(arg, "=") {
			routes = append(routes, machineNamed(arg))
			continue
		}
		name, value, err := assignment(arg)
		if err != nil {
			return "", err
		}
		m := machineNamed(name)
		m.Size, m.Status = value, reconciler.StatusPending()
		routes = append(routes, m)
	}
	harness.Insert(w, w.params.DB, w.routes, routes...)
	return "", nil
}

func (w *world) putMany(args []string) (string, error) {
	n, err := strconv.Atoi(args[1])
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d=1", args[0], i+1))
	}
	_, putErr := w.put(all)
	return "", errors.Join(err, putErr)
}

func (w *world) remove(names []string) (string, error) {
	for _, name := range names {
		harness.Delete(w, w.params.DB, w.routes, machineNamed(name))
	}
	return "", nil
}

// fill has the source "files", which may delete two routes at once, fill the table of the routes.
func (w *world) fill(args []string) (string, error) {
	if w.source == nil {
		var err error
		w.source, err = source.New(source.Config[*machine]{
			Name: "files", DB: w.params.DB, Table: w.routes, Registry: w.registry, MaxDeletions: source.Bound{Rows: 2},
			Same:  func(row, m *machine) bool { return row.Size == m.Size },
			Merge: func(_, m *machine) *machine { return m },
		})
		require.NoError(w, err)
	}
	var list []*machine
	for _, arg := range args {
		name, value, err := assignment(arg)
		if err != nil {
			return "", err
		}
		m := machineNamed(name)
		m.Size, m.Status = value, reconciler.StatusPending()
		list = append(list, m)
	}
	w.lists++
	_, err := w.source.Replace(w.Context(), list, w.lists)
	if errors.Is(err, source.ErrHeld) {
		err = nil
	}
	return "", err
}

func (w *world) reject(args []string) (string, error) {
	var keys []string
	for _, name := range args[1:] {
		key, err := w.source.KeyOf(machineNamed(name))
		require.NoError(w, err)
		keys = append(keys, key)
	}
	w.source.Report(source.Problem{Err: errors.New(args[0]), Keys: keys})
	return "", nil
}

func (w *world) manage([]string) (string, error) {
	table, err := statedb.NewTable(w.params.DB, "machines", byName)
	require.NoError(w, err)
	cfg := reconciler.Config[*machine]{
		DB: w.params.DB, Table: table, Log: w.params.Log,
		Clone: (*machine).Clone, SetStatus: (*machine).SetStatus, GetStatus: (*machine).GetStatus,
		Options: []reconciler.Option{
			reconciler.WithName("machines"), reconciler.WithRegistry(w.registry),
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0 }),
			reconciler.WithRetry(time.Second, time.Minute),
		},
	}
	w.machines = managed.NewWriter(cfg)
	cfg, err = managed.Configure(cfg,
		managed.WithExternalConnecter(managed.ExternalConnectorFn[*machine](
			func(context.Context, *machine) (managed.ExternalClient[*machine], error) { return w.cloud, nil })),
		managed.WithRecorder(event.From(w.recorder, "machines")))
	require.NoError(w, err)
	_, err = reconciler.RegisterConfig(w.params, cfg)
	return "", err
}

// write runs f in one write transaction of the machines. It is an error if f finds no row.
func (w *world) write(f func(wtxn statedb.WriteTxn) (found bool, err error)) (string, error) {
	wtxn := w.params.DB.WriteTxn(w.machines.Table)
	defer wtxn.Abort()
	found, err := f(wtxn)
	if err == nil && !found {
		err = errors.New("there is no such row")
	}
	if err != nil {
		return "", err
	}
	wtxn.Commit()
	return "", nil
}

func (w *world) want(args []string) (string, error) {
	return w.write(func(wtxn statedb.WriteTxn) (bool, error) {
		for _, arg := range args {
			name, size, err := assignment(arg)
			if err != nil {
				return false, err
			}
			if _, err := w.machines.Apply(wtxn, machineNamed(name), func(m *machine) { m.Size = size }); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

func (w *world) removeMachine(args []string) (string, error) {
	return w.write(func(wtxn statedb.WriteTxn) (bool, error) { return w.machines.Delete(wtxn, machineNamed(args[0])) })
}

func (w *world) edit(name string, change func(m *machine)) (string, error) {
	return w.write(func(wtxn statedb.WriteTxn) (bool, error) { return w.machines.Edit(wtxn, machineNamed(name), change) })
}

func (w *world) editing(change func(m *machine)) script.Cmd {
	edit := func(args []string) (string, error) { return w.edit(args[0], change) }
	return harness.Command("Edit a machine", "name", edit)
}

func (w *world) decide(args []string) (string, error) {
	return w.edit(args[0], func(m *machine) { managed.DecideCreate(m, strings.Join(args[1:], "")) })
}

// register registers a reconciler without jitter, refreshing and pruning, unless args say otherwise.
// The status is in the rows, unless an argument is "beside".
func (w *world) register(args []string) (string, error) {
	cfg := reconciler.Config[*machine]{
		Table: w.routes, Operations: w.target,
		Clone: (*machine).Clone, SetStatus: (*machine).SetStatus, GetStatus: (*machine).GetStatus,
	}
	add := func(options ...reconciler.Option) { cfg.Options = append(cfg.Options, options...) }
	set := func(change func(*reconciler.Settings)) { add(reconciler.WithSettings(change)) }
	set(func(s *reconciler.Settings) { s.Jitter = 0 })
	add(reconciler.WithRegistry(w.registry), reconciler.WithRetry(100*time.Millisecond, time.Minute),
		reconciler.WithRefreshing(0, nil), reconciler.WithoutPruning())
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		n, _ := strconv.Atoi(value)
		d, _ := time.ParseDuration(value)
		switch name {
		case "beside":
			cfg.Clone, cfg.SetStatus, cfg.GetStatus = nil, nil, nil
		case "groups":
			cfg.SerialBy = func(r *machine) string { group, _, _ := strings.Cut(r.Name, "/"); return group }
		case "name":
			add(reconciler.WithName(value))
		case "workers":
			set(func(s *reconciler.Settings) { s.Concurrency = n })
		case "timeout":
			set(func(s *reconciler.Settings) { s.Timeout = d })
		case "limit":
			set(func(s *reconciler.Settings) { s.OperationLimiter = rate.NewLimiter(rate.Every(d), 1) })
		case "retry":
			add(reconciler.WithRetry(d, time.Minute))
		case "prune":
			add(reconciler.WithPruning(d))
		case "orphans":
			cfg.Lister, cfg.OrphansOnly = w.target, true
			add(reconciler.WithOrphanBudget(n, 0))
		case "list":
			cfg.Lister, cfg.Equal = w.target, func(wanted, found *machine) bool { return wanted.Size == found.Size }
			cfg.Diff = func(wanted, found *machine) string { return fmt.Sprintf("size %d, not %d", found.Size, wanted.Size) }
		case "breaker":
			set(func(s *reconciler.Settings) { s.BreakerFailures = n })
		case "rounds":
			add(reconciler.WithRoundLimits(n, nil))
		default:
			return "", fmt.Errorf("unknown option %q", arg)
		}
	}
	_, err := reconciler.RegisterConfig(w.params, cfg)
	return "", err
}

// assignment parses name=value.
func assignment(arg string) (name string, value int, err error) {
	i := strings.LastIndex(arg, "=")
	if i < 0 {
		return "", 0, fmt.Errorf("%q must be name=value", arg)
	}
	value, err = strconv.Atoi(arg[i+1:])
	return arg[:i], value, err
}
