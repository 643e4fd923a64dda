// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/script"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Machine is a row: a machine of a cloud.
type Machine struct {
	managed.Meta
	Size   int
	Status reconciler.Status
}

var machineName = statedb.Index[*Machine, string]{
	Name:       "name",
	FromObject: func(m *Machine) index.KeySet { return index.NewKeySet(index.String(m.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

// Compute is the outside system: a cloud that chooses the names of its machines.
type Compute struct {
	mu       sync.Mutex
	machines map[string]int // name to size
}

func (c *Compute) Observe(_ context.Context, m *Machine) (managed.ExternalObservation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, exists := c.machines[managed.GetExternalName(m)]
	return managed.ExternalObservation{ResourceExists: exists, ResourceUpToDate: size == m.Size}, nil
}

// Create creates a machine, and loses the answer.
func (c *Compute) Create(_ context.Context, m *Machine) error {
	id := fmt.Sprintf("i-%d", len(c.machines)+1)
	c.resize(id, m.Size)
	fmt.Println("  create", id, "of size", m.Size)
	return fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
}

func (c *Compute) Update(_ context.Context, m *Machine) error {
	c.resize(managed.GetExternalName(m), m.Size)
	fmt.Println("  update", managed.GetExternalName(m), "to size", m.Size)
	return nil
}

func (c *Compute) Delete(_ context.Context, m *Machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.machines, managed.GetExternalName(m))
	fmt.Println("  delete", managed.GetExternalName(m))
	return nil
}

func (c *Compute) resize(id string, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machines[id] = size
}

// newCommands returns commands for the hive shell, such as "machines/pause NAME". Pass it to cell.Provide.
func newCommands(db *statedb.DB, writer managed.Writer[*Machine]) hive.ScriptCmdsOut {
	edit := func(summary string, change func(m *Machine, args []string)) script.Cmd {
		return command(db, writer, summary, func(wtxn statedb.WriteTxn, m *Machine, args []string) (bool, error) {
			return writer.Edit(wtxn, m, func(next *Machine) { change(next, args) })
		})
	}
	return hive.NewScriptCmds(map[string]script.Cmd{
		"machines/pause":  edit("Pause a machine", func(m *Machine, _ []string) { managed.SetPaused(m, true) }),
		"machines/resume": edit("Resume a machine", func(m *Machine, _ []string) { managed.SetPaused(m, false) }),
		"machines/decide": edit("Record the name of a created machine, or without a name that it was not created",
			func(m *Machine, args []string) { managed.DecideCreate(m, strings.Join(args, "")) }),
		"machines/reconcile": edit("Observe a machine now",
			func(m *Machine, _ []string) { managed.RequestReconcile(m, time.Now().Format(time.RFC3339Nano)) }),
		"machines/orphan": edit("Leave the machine in place when its row is deleted",
			func(m *Machine, _ []string) { managed.SetDeletionPolicy(m, managed.DeletionOrphan) }),
		"machines/delete": command(db, writer, "Delete a machine",
			func(wtxn statedb.WriteTxn, m *Machine, _ []string) (bool, error) { return writer.Delete(wtxn, m) }),
	})
}

// command returns a command that writes the row that its first argument names.
func command(db *statedb.DB, writer managed.Writer[*Machine], summary string,
	write func(wtxn statedb.WriteTxn, m *Machine, args []string) (found bool, err error)) script.Cmd {
	run := func(_ *script.State, args ...string) (script.WaitFunc, error) {
		if len(args) == 0 {
			return nil, script.ErrUsage
		}
		wtxn := db.WriteTxn(writer.Table)
		defer wtxn.Abort()
		found, err := write(wtxn, newMachine(args[0]), args[1:])
		if err == nil && !found {
			err = fmt.Errorf("there is no machine %q", args[0])
		}
		if err == nil {
			wtxn.Commit()
		}
		return nil, err
	}
	return script.Command(script.CmdUsage{Summary: summary, Args: "name [external-name]"}, run)
}

func newMachine(name string) *Machine {
	return &Machine{Meta: managed.Meta{Meta: object.Meta{Name: name}}}
}

// The answer of a create is lost, and a person reports by a command that the machine exists. Later the
// machine is changed in the cloud, and a command repairs it before the next poll.
func Example_byHand() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db := statedb.New()
	machines := statedb.MustNewTableAny(db, "machines", nil, nil, machineName)
	compute := &Compute{machines: map[string]int{}}
	cfg := reconciler.Config[*Machine]{
		DB: db, Table: machines,
		Clone:     func(m *Machine) *Machine { c := *m; return &c },
		GetStatus: func(m *Machine) reconciler.Status { return m.Status },
		SetStatus: func(m *Machine, s reconciler.Status) *Machine { m.Status = s; return m },
		Options:   []reconciler.Option{reconciler.WithRetry(time.Millisecond, time.Second)},
	}
	configured, err := managed.Configure(cfg,
		managed.WithExternalConnecter(managed.ExternalConnectorFn[*Machine](
			func(context.Context, *Machine) (managed.ExternalClient[*Machine], error) { return compute, nil })),
		managed.WithCreationGracePeriod(0)) // this cloud shows at once what it has
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(configured)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()

	// until waits until the row is as the function reports. The row is nil when it is gone.
	until := func(is func(m *Machine) bool) {
		for {
			m, _, watch, _ := machines.GetWatch(db.ReadTxn(), machineName.Query("db"))
			if is(m) {
				if m != nil {
					fmt.Println(" ", m.GetCondition(managed.TypeSynced).Reason, m.GetCondition(managed.TypeReady).Reason)
				}
				return
			}
			<-watch
		}
	}
	writer := managed.NewWriter(cfg)
	shell := script.NewEngine()
	for _, c := range newCommands(db, writer).ScriptCmds {
		shell.Cmds[c.Name] = c.Cmd
	}
	state, err := script.NewState(ctx, os.TempDir(), nil)
	if err != nil {
		log.Fatal(err)
	}
	run := func(line string) {
		fmt.Println(">", line)
		if err := shell.ExecuteLine(state, line, io.Discard); err != nil {
			log.Fatal(err)
		}
	}

	fmt.Println("want db")
	wtxn := db.WriteTxn(machines)
	if _, err := writer.Apply(wtxn, newMachine("db"), func(m *Machine) { m.Size = 2 }); err != nil {
		log.Fatal(err)
	}
	wtxn.Commit()
	until(func(m *Machine) bool { return m.GetCondition(managed.TypeSynced).Reason == managed.ReasonCreateUnsure })
	run("machines/decide db i-1")
	until(func(m *Machine) bool { return managed.IsReady(m) && managed.IsSynced(m) })

	fmt.Println("someone resizes i-1 in the cloud")
	compute.resize("i-1", 7)
	run("machines/reconcile db")
	until(func(m *Machine) bool {
		return managed.ReconcileHandled(m, m.Annotations[managed.AnnotationPrefix+"reconcile-requested-at"])
	})

	run("machines/delete db")
	until(func(m *Machine) bool { return m == nil })
	fmt.Println("  the row is gone")

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// want db
	//   create i-1 of size 2
	//   CreateUnsure Creating
	// > machines/decide db i-1
	//   ReconcileSuccess Available
	// someone resizes i-1 in the cloud
	// > machines/reconcile db
	//   update i-1 to size 2
	//   ReconcileSuccess Available
	// > machines/delete db
	//   delete i-1
	//   the row is gone
}
