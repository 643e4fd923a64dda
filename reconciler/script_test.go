// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"bytes"
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/hive/script/scripttest"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"golang.org/x/tools/txtar"

	"github.com/statekeel/statekeel/reconciler"
)

// TestScripts runs the scripts of testdata, each a hive in a bubble of virtual time.
// They are written to be read.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				state, err := script.NewState(t.Context(), dir, nil)
				require.NoError(t, err)
				require.NoError(t, state.ExtractFiles(archive))
				s := newScripted(t)
				scripttest.Run(t, &script.Engine{Cmds: s.commands()}, state, file, bytes.NewReader(archive.Comment))
				require.NoError(t, s.hive.Stop(s.log(), t.Context()))
			})
		})
	}
}

// scripted is a hive with a table of objects and the commands that scripts use.
type scripted struct {
	*testing.T
	hive     *hive.Hive
	table    statedb.RWTable[*object]
	params   reconciler.Params
	db       *statedb.DB
	health   *cell.SimpleHealth
	target   *target
	metrics  *reconciler.ExpVarMetrics
	loop     reconciler.Reconciler[*object]
	markInit func(statedb.WriteTxn)
}

func newScripted(t *testing.T) *scripted {
	s := &scripted{T: t, target: newTarget(), metrics: reconciler.NewUnpublishedExpVarMetrics()}
	s.hive = hive.New(
		statedb.Cell, job.Cell, cell.SimpleHealthCell,
		cell.Module("test", "Test",
			cell.Provide(
				job.Registry.NewGroup,
				func() reconciler.Metrics { return s.metrics },
			),
			cell.Invoke(func(p reconciler.Params, db *statedb.DB, h *cell.SimpleHealth) (err error) {
				s.params, s.db, s.health = p, db, h
				s.table, err = statedb.NewTable(db, "objects", idIndex)
				if err != nil {
					return err
				}
				wtxn := db.WriteTxn(s.table)
				s.markInit = s.table.RegisterInitializer(wtxn, "script")
				wtxn.Commit()
				return nil
			}),
		),
	)
	return s
}

func (s *scripted) log() *slog.Logger { return hivetest.Logger(s) }

func (s *scripted) commands() map[string]script.Cmd {
	commands, err := s.hive.ScriptCommands(s.log())
	require.NoError(s, err)
	maps.Insert(commands, maps.All(script.DefaultCmds()))
	for name, c := range map[string]struct {
		summary, args string
		run           func(args []string) (string, error)
	}{
		"reconcile":  {"Register a reconciler of the objects", "[batch] [refresh=d] [prune=d]", s.register},
		"expect-ops": {"Compare the operations since the last time, in order", "op...", s.expectOps},
		"fail":       {"Make all operations fail with a text; without one, make them work", "[text]", s.fail},
		"pass":       {"Let virtual time go by", "duration", s.pass},
		"prune":      {"Call Prune", "", s.prune},
		"mark-init":  {"Mark the table initialised", "", s.initialize},
		"health":     {"Print the health of the jobs", "", s.printHealth},
		"expvar":     {"Print the metrics", "", s.printMetrics},
		"put":        {"Insert pending objects", "id=value...", s.put},
		"remove":     {"Delete objects", "id...", s.remove},
	} {
		commands[name] = script.Command(script.CmdUsage{Summary: c.summary, Args: c.args},
			func(_ *script.State, args ...string) (script.WaitFunc, error) {
				synctest.Wait()
				out, err := c.run(args)
				synctest.Wait()
				if err != nil {
					return nil, err
				}
				return func(*script.State) (string, string, error) { return out, "", nil }, nil
			})
	}
	return commands
}

func (s *scripted) register(args []string) (string, error) {
	options := []reconciler.Option{
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0 }),
		reconciler.WithRefreshing(0, nil),
		reconciler.WithoutPruning(),
	}
	var batches reconciler.BatchOperations[*object]
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		d, _ := time.ParseDuration(value)
		switch name {
		case "batch":
			batches = batchTarget{s.target}
		case "refresh":
			options = append(options, reconciler.WithRefreshing(d, rate.NewLimiter(1000, 1)))
		case "prune":
			options = append(options, reconciler.WithPruning(d))
		default:
			return "", fmt.Errorf("unknown argument %q", arg)
		}
	}
	loop, err := reconciler.Register(s.params, s.table,
		(*object).Clone, (*object).SetStatus, (*object).GetStatus, s.target, batches, options...)
	s.loop = loop
	return "", err
}

func (s *scripted) expectOps(want []string) (string, error) {
	if got := s.target.calls(); !slices.Equal(got, want) {
		return "", fmt.Errorf("operations were %q", got)
	}
	return "", nil
}

func (s *scripted) fail(args []string) (string, error) {
	s.target.failing(strings.Join(args, " "))
	return "", nil
}

func (s *scripted) pass(args []string) (string, error) {
	d, err := time.ParseDuration(strings.Join(args, ""))
	time.Sleep(d)
	return "", err
}

func (s *scripted) prune([]string) (string, error) {
	if s.loop == nil {
		return "", errors.New("no reconciler is registered")
	}
	s.loop.Prune()
	return "", nil
}

func (s *scripted) initialize([]string) (string, error) {
	wtxn := s.db.WriteTxn(s.table)
	s.markInit(wtxn)
	wtxn.Commit()
	return "", nil
}

func (s *scripted) printHealth([]string) (string, error) {
	var lines strings.Builder
	for _, job := range []string{"reconcile", "refresh"} {
		if h := s.health.GetChild("job-" + job); h != nil {
			fmt.Fprintf(&lines, "%s: %s: %s", job, h.Level, h.Status)
			if h.Error != nil {
				fmt.Fprintf(&lines, ": %s", h.Error)
			}
			lines.WriteString("\n")
		}
	}
	return lines.String(), nil
}

func (s *scripted) printMetrics([]string) (string, error) {
	var lines strings.Builder
	s.metrics.Map().Do(func(kv expvar.KeyValue) {
		kv.Value.(*expvar.Map).Do(func(of expvar.KeyValue) {
			fmt.Fprintf(&lines, "%s.%s: %s\n", kv.Key, of.Key, of.Value)
		})
	})
	return lines.String(), nil
}

func (s *scripted) put(args []string) (string, error) {
	wtxn := s.db.WriteTxn(s.table)
	defer wtxn.Commit()
	for _, arg := range args {
		o := &object{Status: reconciler.StatusPending()}
		if _, err := fmt.Sscanf(arg, "%d=%d", &o.ID, &o.Value); err != nil {
			return "", fmt.Errorf("%q: %w", arg, err)
		}
		if _, _, err := s.table.Insert(wtxn, o); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (s *scripted) remove(args []string) (string, error) {
	wtxn := s.db.WriteTxn(s.table)
	defer wtxn.Commit()
	for _, arg := range args {
		var o object
		if _, err := fmt.Sscan(arg, &o.ID); err != nil {
			return "", fmt.Errorf("%q: %w", arg, err)
		}
		if _, _, err := s.table.Delete(wtxn, &o); err != nil {
			return "", err
		}
	}
	return "", nil
}
