// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The scripts in testdata show the commands at work; read them as examples.
func TestScripts(t *testing.T) {
	harness.RunScripts(t, func(t *testing.T) (map[string]script.Cmd, func()) {
		s := newScripted(t)
		return s.commands(), s.stop
	})
}

// route is a row of the scripts. Its name is its key.
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

// scripted is a hive with a table of routes, and with the additional commands of the scripts.
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

// stop releases hanging operations, and stops the hive if it was started.
func (s *scripted) stop() {
	s.target.release()
	if s.started {
		require.NoError(s, s.hive.Stop(s.log, s.Context()))
	}
}

func (s *scripted) commands() map[string]script.Cmd {
	return harness.Commands(s, s.hive, s.log, map[string]script.Cmd{
		"reconcile":   harness.Command("Register a reconciler of the routes", "option=value...", s.register),
		"mark-init":   harness.Command("Mark the table initialised", "", s.initialize),
		"put":         harness.Command("Insert pending routes", "name=value...", s.put),
		"put-unset":   harness.Command("Insert routes without a status", "name...", s.putUnset),
		"put-pending": harness.Command("Insert many routes", "prefix count", s.putMany),
		"remove":      harness.Command("Delete routes", "name...", s.remove),
		"outcome":     harness.Command("Set the outcome of operations on a route", "name|* outcome [text]", s.target.setOutcome),
		"release":     harness.Command("Close the watch channels of blocked operations and release hanging ones", "", s.target.releaseAll),
		"expect-ops":  harness.Command("Compare the operations since the last comparison, in order", "op...", s.target.expect),
		"holds":       harness.Command("Print the routes of the target", "", s.target.print),
		"leave":       harness.Command("Put a route into the target, behind the reconciler's back", "name=value", s.target.leave),
	})
}

func (s *scripted) initialize([]string) (string, error) {
	wtxn := s.db.WriteTxn(s.table)
	defer wtxn.Commit()
	s.markInit(wtxn)
	return "", nil
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
