// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
)

// Tunnel is a row: it describes a tunnel that should exist.
type Tunnel struct{ Name, Remote string }

// tunnelName is the primary index: the target knows a tunnel by its name.
var tunnelName = statedb.Index[*Tunnel, string]{
	Name:       "name",
	FromObject: func(t *Tunnel) index.KeySet { return index.NewKeySet(index.String(t.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

// tunnels are the operations. They change the target, which is the standard output here.
type tunnels struct{}

// Update makes the target have the tunnel.
func (tunnels) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, t *Tunnel) error {
	fmt.Println("create", t.Name, "to", t.Remote)
	return nil
}

// Delete removes the tunnel from the target.
func (tunnels) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, t *Tunnel) error {
	fmt.Println("remove", t.Name)
	return nil
}

// A program without a hive writes a row, waits until the target has it, and deletes it again.
func Example() {
	db := statedb.New()
	table, err := statedb.NewTableAny(db, "tunnels", nil, nil, tunnelName)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(reconciler.Config[*Tunnel]{DB: db, Table: table, Operations: tunnels{}})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Start(); err != nil { // frees the memory of deleted objects
		log.Fatal(err)
	}
	defer db.Stop()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()

	wtxn := db.WriteTxn(table)
	table.Insert(wtxn, &Tunnel{Name: "berlin", Remote: "2001:db8::1"})
	wtxn.Commit()
	if _, err := loop.WaitAll(ctx, reconciler.Applied); err != nil {
		log.Fatal(err)
	}

	wtxn = db.WriteTxn(table)
	table.Delete(wtxn, &Tunnel{Name: "berlin"})
	wtxn.Commit()
	if _, err := loop.WaitAll(ctx, reconciler.Applied); err != nil {
		log.Fatal(err)
	}

	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	// Output:
	// create berlin to 2001:db8::1
	// remove berlin
}
