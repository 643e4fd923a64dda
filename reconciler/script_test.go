// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/hivetest"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
)

// TestScripts runs the scripts of testdata. Each one is a short tutorial.
func TestScripts(t *testing.T) {
	harness.RunScripts(t, func(t *testing.T) (map[string]script.Cmd, func()) {
		s := newScripted(t)
		return s.commands(), func() { require.NoError(t, s.hive.Stop(s.log(), t.Context())) }
	})
}

// scripted is a hive with a table of objects, and the commands of the scripts.
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
	return harness.Commands(s, s.hive, s.log(), map[string]script.Cmd{
		"reconcile":  harness.Command("Register a reconciler of the objects", "[batch] [refresh=d] [prune=d]", s.register),
		"expect-ops": harness.Command("Compare the operations since the last time, in order", "op...", s.expectOps),
		"fail":       harness.Command("Make all operations fail with a text; without one, make them work", "[text]", s.fail),
		"prune":      harness.Command("Call Prune", "", s.prune),
		"mark-init":  harness.Command("Mark the table initialised", "", s.initialize),
		"health":     harness.Command("Print the health of the jobs", "", s.printHealth),
		"expvar":     harness.Command("Print the metrics", "", s.printMetrics),
		"put":        harness.Command("Insert pending objects", "id=value...", s.put),
		"remove":     harness.Command("Delete objects", "id...", s.remove),
	})
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
