// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// ports is a target that has everything at once.
type ports struct{ sync.Map }

func (p *ports) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, m *machine) error {
	p.Store(m.Name, m)
	return nil
}

func (p *ports) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, m *machine) error {
	p.Map.Delete(m.Name)
	return nil
}

// A program without a hive serves its commands on a socket. In another process its arguments are these commands.
func ExampleServe() {
	dir, err := os.MkdirTemp("", "agent")
	check(err)
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "socket")

	db := statedb.New()
	table, err := statedb.NewTable(db, "ports", byName)
	check(err)
	var registry inspect.Registry
	loop, err := reconciler.New(reconciler.Config[*machine]{
		DB: db, Table: table, Operations: &ports{},
		Options: []reconciler.Option{reconciler.WithRegistry(&registry)},
	})
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { check(commands.Serve(ctx, socket, &registry, loop.Run)) })

	wtxn := db.WriteTxn(table)
	eth0 := machineNamed("eth0")
	eth0.Size = 1500
	_, _, err = table.Insert(wtxn, eth0)
	check(err)
	wtxn.Commit()

	for len(registry.All()) == 0 || !listens(socket) {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("status:", commands.Client(socket, "wait"))
	fmt.Println("status:", commands.Client(socket, "pause"))

	stop()
	running.Wait()
	// Output:
	// ports is applied
	// status: 0
	// ports: paused, until it is resumed
	// status: 0
}

func listens(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
