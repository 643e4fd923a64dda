// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/hive/script/scripttest"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// TestScripts runs the scripts of testdata, each a hive in a bubble of virtual time that
// begins at 2000-01-01T00:00:00Z. They are written to be read. With -scripttest.update what
// they compare with is replaced by what there is.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			dir := t.TempDir()
			var state *script.State
			synctest.Test(t, func(t *testing.T) {
				state, err = script.NewState(t.Context(), dir, nil)
				require.NoError(t, err)
				require.NoError(t, state.ExtractFiles(archive))
				update := flag.Lookup("scripttest.update")
				state.DoUpdate = update != nil && update.Value.String() == "true"
				s := newScripted(t)
				scripttest.Run(t, &script.Engine{Cmds: s.commands()}, state, file, bytes.NewReader(archive.Comment))
				s.stop()
			})
			if state.DoUpdate {
				for i, f := range archive.Files {
					if text, ok := state.FileUpdates[f.Name]; ok {
						archive.Files[i].Data = []byte(text)
					}
				}
				require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
			}
		})
	}
}

// route is a row, whose name is its key.
type route struct {
	Name   string
	Value  int
	Status reconciler.Status
}

func (r *route) Clone() *route                        { c := *r; return &c }
func (r *route) SetStatus(s reconciler.Status) *route { r.Status = s; return r }
func (r *route) GetStatus() reconciler.Status         { return r.Status }
func (r *route) TableHeader() []string                { return []string{"Name", "Value", "Status"} }
func (r *route) TableRow() []string {
	return []string{r.Name, fmt.Sprint(r.Value), r.Status.Kind.String()}
}

var nameIndex = statedb.Index[*route, string]{
	Name:       "name",
	FromObject: func(r *route) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// scripted is a hive with a table of routes and the commands that scripts use beside those
// of this package.
type scripted struct {
	*testing.T
	hive     *hive.Hive
	log      *slog.Logger
	db       *statedb.DB
	table    statedb.RWTable[*route]
	params   reconciler.Params
	registry *inspect.Registry
	target   *target
	markInit func(statedb.WriteTxn)
	started  bool
}

func newScripted(t *testing.T) *scripted {
	s := &scripted{T: t, log: slog.New(slog.DiscardHandler), target: newTarget()}
	s.hive = hive.New(
		statedb.Cell, job.Cell, cell.SimpleHealthCell, inspect.Cell, commands.Cell,
		cell.Module("test", "Test",
			cell.Provide(job.Registry.NewGroup),
			cell.Invoke(func(p reconciler.Params, r *inspect.Registry, db *statedb.DB, lc cell.Lifecycle) (err error) {
				s.params, s.registry, s.db = p, r, db
				lc.Append(cell.Hook{OnStart: func(cell.HookContext) error { s.started = true; return nil }})
				s.table, err = statedb.NewTable(db, "routes", nameIndex)
				if err != nil {
					return err
				}
				wtxn := db.WriteTxn(s.table)
				s.markInit = s.table.RegisterInitializer(wtxn, "kubernetes")
				wtxn.Commit()
				return nil
			}),
		),
	)
	return s
}

// stop lets go what hangs and ends the hive, if it was started.
func (s *scripted) stop() {
	s.target.release()
	if s.started {
		require.NoError(s, s.hive.Stop(s.log, s.Context()))
	}
}

// commands are all, each of which begins and ends when the reconcilers have nothing to do.
func (s *scripted) commands() map[string]script.Cmd {
	all, err := s.hive.ScriptCommands(s.log)
	require.NoError(s, err)
	maps.Insert(all, maps.All(script.DefaultCmds()))
	for name, c := range map[string]struct {
		summary, args string
		run           func(args []string) (string, error)
	}{
		"reconcile":   {"Register a reconciler of the routes", "option=value...", s.register},
		"mark-init":   {"Mark the table initialised", "", s.initialize},
		"put":         {"Insert pending routes", "name=value...", s.put},
		"put-unset":   {"Insert routes without a status", "name...", s.putUnset},
		"put-pending": {"Insert many routes", "prefix count", s.putMany},
		"remove":      {"Delete routes", "name...", s.remove},
		"outcome":     {"Say what operations on a route come to", "name|* outcome [text]", s.target.say},
		"release":     {"Close what blocks, and let what hangs go on", "", s.target.releaseAll},
		"expect-ops":  {"Compare the operations since the last time, in order", "op...", s.target.expect},
		"holds":       {"Print what the target has", "", s.target.print},
		"leave":       {"Put something into the target that nobody wants", "name=value", s.target.leave},
		"pass":        {"Let virtual time go by", "duration", pass},
	} {
		all[name] = script.Command(script.CmdUsage{Summary: c.summary, Args: c.args},
			func(_ *script.State, args ...string) (script.WaitFunc, error) {
				out, err := c.run(args)
				if err != nil {
					return nil, err
				}
				return func(*script.State) (string, string, error) { return out, "", nil }, nil
			})
	}
	for name, cmd := range all {
		all[name] = settled{cmd}
	}
	return all
}

// settled is a command around which all is idle, so that a script is deterministic.
type settled struct{ script.Cmd }

func (c settled) Run(s *script.State, args ...string) (script.WaitFunc, error) {
	synctest.Wait()
	wait, err := c.Cmd.Run(s, args...)
	synctest.Wait()
	return wait, err
}

func (s *scripted) initialize([]string) (string, error) {
	wtxn := s.db.WriteTxn(s.table)
	defer wtxn.Commit()
	s.markInit(wtxn)
	return "", nil
}

// pass lets virtual time go by.
func pass(args []string) (string, error) {
	d, err := time.ParseDuration(strings.Join(args, ""))
	time.Sleep(d)
	return "", err
}

func (s *scripted) put(args []string) (string, error) {
	wtxn := s.db.WriteTxn(s.table)
	defer wtxn.Commit()
	for _, arg := range args {
		name, value, err := assignment(arg)
		if err != nil {
			return "", err
		}
		if _, _, err := s.table.Insert(wtxn, &route{Name: name, Value: value, Status: reconciler.StatusPending()}); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (s *scripted) putUnset(args []string) (string, error) {
	wtxn := s.db.WriteTxn(s.table)
	defer wtxn.Commit()
	for _, name := range args {
		if _, _, err := s.table.Insert(wtxn, &route{Name: name}); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (s *scripted) putMany(args []string) (string, error) {
	var n int
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		return "", err
	}
	wtxn := s.db.WriteTxn(s.table)
	defer wtxn.Commit()
	for i := range n {
		r := &route{Name: fmt.Sprintf("%s%d", args[0], i+1), Value: 1, Status: reconciler.StatusPending()}
		if _, _, err := s.table.Insert(wtxn, r); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (s *scripted) remove(args []string) (string, error) {
	wtxn := s.db.WriteTxn(s.table)
	defer wtxn.Commit()
	for _, name := range args {
		if _, _, err := s.table.Delete(wtxn, &route{Name: name}); err != nil {
			return "", err
		}
	}
	return "", nil
}
