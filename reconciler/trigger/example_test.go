// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/trigger"
)

// Zone is a row of the table that records depend on.
type Zone struct {
	Name string
	TTL  int
}

func (z *Zone) TableHeader() []string { return []string{"Name"} }
func (z *Zone) TableRow() []string    { return []string{z.Name} }

var zoneByName = statedb.Index[*Zone, string]{
	Name:       "name",
	FromObject: func(z *Zone) index.KeySet { return index.NewKeySet(index.String(z.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

// Record is an object in the target, with the TTL of its zone.
type Record struct {
	Name, Zone string
	Status     reconciler.Status
}

func (r *Record) TableHeader() []string { return []string{"Name"} }
func (r *Record) TableRow() []string    { return []string{r.Name} }

func (r *Record) Clone() *Record                        { c := *r; return &c }
func (r *Record) GetStatus() reconciler.Status          { return r.Status }
func (r *Record) SetStatus(s reconciler.Status) *Record { r.Status = s; return r }

var (
	recordByName = statedb.Index[*Record, string]{
		Name:       "name",
		FromObject: func(r *Record) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
		FromKey:    index.String,
		Unique:     true,
	}
	// recordByZone is the index that finds the records of a zone.
	recordByZone = statedb.Index[*Record, string]{
		Name:       "zone",
		FromObject: func(r *Record) index.KeySet { return index.NewKeySet(index.String(r.Zone)) },
		FromKey:    index.String,
	}
)

// nameServer reports the updates that it gets.
type nameServer struct {
	zones statedb.Table[*Zone]
	said  chan string
}

func (x nameServer) Update(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, r *Record) error {
	ttl := 60
	if zone, _, found := x.zones.Get(txn, zoneByName.Query(r.Zone)); found {
		ttl = zone.TTL
	}
	x.said <- fmt.Sprintf("%s in %s ttl %d", r.Name, r.Zone, ttl)
	return nil
}

func (x nameServer) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Record) error {
	return nil
}

// A record has been applied with the TTL of its zone. When the TTL changes, no program writes the
// record: the trigger marks it.
func Example() {
	db := statedb.New()
	zones := statedb.MustNewTable(db, "zones", zoneByName)
	records := statedb.MustNewTable(db, "records", recordByName, recordByZone)
	target := nameServer{zones, make(chan string)}
	loop, err := reconciler.New(reconciler.Config[*Record]{
		DB: db, Table: records,
		Clone: (*Record).Clone, SetStatus: (*Record).SetStatus, GetStatus: (*Record).GetStatus,
		Operations: target,
	})
	if err != nil {
		panic(err)
	}
	follower, err := trigger.New(trigger.Config[*Record, *Zone]{
		Loop: loop, Source: zones,
		Dependents: func(change statedb.Change[*Zone]) []statedb.Query[*Record] {
			return []statedb.Query[*Record]{recordByZone.Query(change.Object.Name)}
		},
	})
	if err != nil {
		panic(err)
	}
	defer follower.Close()

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- loop.Run(ctx) }()
	go func() { ended <- follower.Run(ctx) }()

	txn := db.WriteTxn(records)
	records.Insert(txn, &Record{Name: "www", Zone: "example.org", Status: reconciler.StatusPending()})
	txn.Commit()
	fmt.Println(<-target.said)

	txn = db.WriteTxn(zones)
	zones.Insert(txn, &Zone{Name: "example.org", TTL: 3600})
	txn.Commit()
	fmt.Println(<-target.said)

	txn = db.WriteTxn(zones)
	zones.Delete(txn, &Zone{Name: "example.org"})
	txn.Commit()
	fmt.Println(<-target.said)

	cancel()
	fmt.Println(<-ended, <-ended)

	// Output:
	// www in example.org ttl 60
	// www in example.org ttl 3600
	// www in example.org ttl 60
	// <nil> <nil>
}
