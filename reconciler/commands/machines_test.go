// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

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
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/object"
)

// machine is a managed resource in the scenes of docs/OPERATIONS.md.
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

// machines is a hive with a table of machines, a cloud, and the commands of a program for them.
type machines struct {
	*testing.T
	hive   *hive.Hive
	log    *slog.Logger
	db     *statedb.DB
	writer managed.Writer[*machine]
	cloud  *cloud
}

func newMachines(t *testing.T) *machines {
	s := &machines{T: t, log: slog.New(slog.DiscardHandler), cloud: &cloud{has: map[string]int{}, failures: map[string]string{}}}
	s.hive = hive.New(
		statedb.Cell, job.Cell, cell.SimpleHealthCell, inspect.Cell, commands.Cell, event.Cell,
		cell.Module("test", "Test", cell.Provide(job.Registry.NewGroup), cell.Invoke(s.register)),
	)
	return s
}

func (s *machines) register(p reconciler.Params, r *inspect.Registry, recorder event.Recorder) error {
	byName := statedb.Index[*machine, string]{Name: "name", Unique: true, FromKey: index.String, FromString: index.FromString,
		FromObject: func(m *machine) index.KeySet { return index.NewKeySet(index.String(m.Name)) }}
	table, err := statedb.NewTable(p.DB, "machines", byName)
	if err != nil {
		return err
	}
	cfg := reconciler.Config[*machine]{
		DB: p.DB, Table: table, Log: p.Log,
		Clone: (*machine).Clone, SetStatus: (*machine).SetStatus, GetStatus: (*machine).GetStatus,
		Options: []reconciler.Option{
			reconciler.WithName("machines"), reconciler.WithRegistry(r),
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0 }), reconciler.WithRetry(time.Second, time.Minute),
		},
	}
	s.db, s.writer = p.DB, managed.NewWriter(cfg)
	cfg, err = managed.Configure(cfg,
		managed.WithExternalConnecter(managed.ExternalConnectorFn[*machine](
			func(context.Context, *machine) (managed.ExternalClient[*machine], error) { return s.cloud, nil })),
		managed.WithRecorder(recorder.WithAnnotations(event.SourceAnnotation, "machines")))
	if err != nil {
		return err
	}
	_, err = reconciler.RegisterConfig(p, cfg)
	return err
}

// stop ends the hive.
func (s *machines) stop() { require.NoError(s, s.hive.Stop(s.log, s.Context())) }

func (s *machines) commands() map[string]script.Cmd {
	commands := map[string]script.Cmd{}
	for name, run := range map[string]func(args []string) (string, error){
		"want":               s.want,
		"cloud":              s.cloud.setFailure,
		"machines/delete":    s.remove,
		"machines/decide":    s.decide,
		"machines/pause":     s.edit(func(m *machine) { managed.SetPaused(m, true) }),
		"machines/resume":    s.edit(func(m *machine) { managed.SetPaused(m, false) }),
		"machines/orphan":    s.edit(func(m *machine) { managed.SetDeletionPolicy(m, managed.DeletionOrphan) }),
		"machines/reconcile": s.edit(func(m *machine) { managed.RequestReconcile(m, time.Now().Format(time.RFC3339Nano)) }),
	} {
		commands[name] = harness.Command(name, "", run)
	}
	return harness.Commands(s, s.hive, s.log, commands)
}

// write runs f in one write transaction. It is an error if f finds no row.
func (s *machines) write(f func(wtxn statedb.WriteTxn) (found bool, err error)) (string, error) {
	wtxn := s.db.WriteTxn(s.writer.Table)
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

func (s *machines) want(args []string) (string, error) {
	return s.write(func(wtxn statedb.WriteTxn) (bool, error) {
		for _, arg := range args {
			name, size, err := assignment(arg)
			if err != nil {
				return false, err
			}
			if _, err := s.writer.Apply(wtxn, machineNamed(name), func(m *machine) { m.Size = size }); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

func (s *machines) remove(args []string) (string, error) {
	return s.write(func(wtxn statedb.WriteTxn) (bool, error) { return s.writer.Delete(wtxn, machineNamed(args[0])) })
}

func (s *machines) edit(change func(m *machine)) func(args []string) (string, error) {
	return func(args []string) (string, error) {
		return s.write(func(wtxn statedb.WriteTxn) (bool, error) {
			return s.writer.Edit(wtxn, machineNamed(args[0]), change)
		})
	}
}

func (s *machines) decide(args []string) (string, error) {
	return s.edit(func(m *machine) { managed.DecideCreate(m, strings.Join(args[1:], "")) })(args)
}

// cloud is the outside system of the machines. It chooses the names of the machines that it creates.
type cloud struct {
	mu      sync.Mutex
	has     map[string]int // sizes by name
	created int
	// failures has the error texts of calls, by their names, such as "create".
	failures map[string]string
}

var _ managed.ExternalClient[*machine] = (*cloud)(nil)

// setFailure makes calls fail with a text. Without a text they succeed again.
func (c *cloud) setFailure(args []string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("cloud: which call?")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[args[0]] = strings.Join(args[1:], " ")
	return "", nil
}

// wrong returns the error of a call.
func (c *cloud) wrong(call string) error {
	if text := c.failures[call]; text != "" {
		return errors.New(text)
	}
	return nil
}

func (c *cloud) Observe(_ context.Context, m *machine) (managed.ExternalObservation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, exists := c.has[managed.GetExternalName(m)]
	return managed.ExternalObservation{ResourceExists: exists, ResourceUpToDate: size == m.Size}, c.wrong("observe")
}

// Create creates a machine, also if it fails: the failure stands for a lost answer.
func (c *cloud) Create(_ context.Context, m *machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.created++
	id := fmt.Sprintf("i-%d", c.created)
	c.has[id] = m.Size
	if err := c.wrong("create"); err != nil {
		return fmt.Errorf("%w: %w", err, managed.ErrCreateUnsure)
	}
	managed.SetExternalName(m, id)
	return nil
}

func (c *cloud) Update(_ context.Context, m *machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has[managed.GetExternalName(m)] = m.Size
	return c.wrong("update")
}

// Delete deletes a machine. With the text "busy" it accepts the request and keeps the machine.
func (c *cloud) Delete(_ context.Context, m *machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.wrong("delete"); {
	case c.failures["delete"] == "busy":
		return nil
	case err != nil:
		return err
	}
	delete(c.has, managed.GetExternalName(m))
	return nil
}
