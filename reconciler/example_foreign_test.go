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

// The module "nodes" stands for a package of somebody else: it owns the table, and hands out a view
// that can only be read. Its rows have no status, and it does not know who reads them.

// Node is a row of the module.
type Node struct{ Name, Address string }

// nodes is the module.
type nodes struct {
	db    *statedb.DB
	table statedb.RWTable[*Node]
}

func newNodes(db *statedb.DB) (*nodes, error) {
	table, err := statedb.NewTableAny(db, "nodes", nil, nil, statedb.Index[*Node, string]{
		Name:       "name",
		FromObject: func(n *Node) index.KeySet { return index.NewKeySet(index.String(n.Name)) },
		FromKey:    index.String,
		FromString: index.FromString,
		Unique:     true,
	})
	return &nodes{db, table}, err
}

// Table returns the table, for reading.
func (n *nodes) Table() statedb.Table[*Node] { return n.table }

// Discover writes a node.
func (n *nodes) Discover(name, address string) {
	wtxn := n.db.WriteTxn(n.table)
	defer wtxn.Commit()
	n.table.Insert(wtxn, &Node{Name: name, Address: address})
}

// neighbours are the operations: the kernel gets an entry for each node.
type neighbours struct{}

func (neighbours) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, n *Node) error {
	if n.Address == "" {
		return reconciler.Blocked("no address yet")
	}
	fmt.Println("neighbour", n.Name, "at", n.Address)
	return nil
}

func (neighbours) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Node) error { return nil }

// A reconciler of a table that belongs to another module: it reads the table, and writes the outcomes
// beside it. The other module is not changed for it, and may have any number of such reconcilers.
func Example_tableOfAnotherModule() {
	db := statedb.New()
	nodes, err := newNodes(db)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(reconciler.Config[*Node]{
		DB: db, Table: nodes.Table(), Operations: neighbours{},
		// The name is unique in the database: the tables of the outcomes have it.
		Options: []reconciler.Option{reconciler.WithName("neighbours")},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()

	nodes.Discover("berlin", "2001:db8::1")
	nodes.Discover("paris", "")
	if _, err := loop.WaitAll(ctx, reconciler.Attempted); err != nil {
		log.Fatal(err)
	}
	// The rows, and what became of them, in one transaction.
	txn := db.ReadTxn()
	for node := range nodes.Table().All(txn) {
		status, _ := loop.Status(txn, node)
		fmt.Println(node.Name, status.Kind)
	}
	for outcome := range loop.Outcomes().All(txn) {
		fmt.Println("in", loop.Outcomes().Name()+":", outcome.Key, outcome.Text)
	}

	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	// Output:
	// neighbour berlin at 2001:db8::1
	// berlin Done
	// paris Blocked
	// in neighbours-outcomes: paris no address yet
}
