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

// Device is a row of the table that addresses depend on.
type Device struct {
	Name string
	Up   bool
}

func (d *Device) TableHeader() []string { return []string{"Name", "Up"} }
func (d *Device) TableRow() []string    { return []string{d.Name, fmt.Sprint(d.Up)} }

// Address is a row that is reconciled: an IP address of a device.
type Address struct {
	Prefix, Device string
	Status         reconciler.Status
}

func (a *Address) TableHeader() []string { return []string{"Prefix", "Device", "Status"} }
func (a *Address) TableRow() []string {
	return []string{a.Prefix, a.Device, a.Status.Kind.String()}
}

func (a *Address) Clone() *Address                        { c := *a; return &c }
func (a *Address) GetStatus() reconciler.Status           { return a.Status }
func (a *Address) SetStatus(s reconciler.Status) *Address { a.Status = s; return a }

var (
	deviceName = statedb.Index[*Device, string]{
		Name:       "name",
		FromObject: func(d *Device) index.KeySet { return index.NewKeySet(index.String(d.Name)) },
		FromKey:    index.String,
		Unique:     true,
	}
	addressPrefix = statedb.Index[*Address, string]{
		Name:       "prefix",
		FromObject: func(a *Address) index.KeySet { return index.NewKeySet(index.String(a.Prefix)) },
		FromKey:    index.String,
		Unique:     true,
	}
)

// addressOperations add the addresses. They only print here.
type addressOperations struct{ devices statedb.Table[*Device] }

func (o *addressOperations) Update(_ context.Context, txn statedb.ReadTxn, _ statedb.Revision, address *Address) error {
	isUp := func(device *Device) bool { return device.Up }
	device, err := reconciler.Need(txn, o.devices, deviceName.Query(address.Device), "device "+address.Device, isUp)
	if err != nil {
		return err
	}
	fmt.Println("add", address.Prefix, "to", device.Name)
	return nil
}

func (o *addressOperations) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Address) error {
	return nil
}

// An address waits until its device exists and is up. Nothing polls. Health reports
// "OK, 1 object(s), 1 blocked" in the meantime.
func ExampleNeed() {
	db := statedb.New()
	devices, err := statedb.NewTable(db, "devices", deviceName)
	if err != nil {
		log.Fatal(err)
	}
	addresses, err := statedb.NewTable(db, "addresses", addressPrefix)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(reconciler.Config[*Address]{
		DB: db, Table: addresses, Operations: &addressOperations{devices},
		Clone: (*Address).Clone, GetStatus: (*Address).GetStatus, SetStatus: (*Address).SetStatus,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Start(); err != nil {
		log.Fatal(err)
	}
	defer db.Stop()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()

	set := func(device *Device) {
		wtxn := db.WriteTxn(devices)
		devices.Insert(wtxn, device)
		wtxn.Commit()
	}
	// await waits until the address has a status, and prints it.
	await := func(kind reconciler.StatusKind, reason string) {
		for {
			address, _, watch, _ := addresses.GetWatch(db.ReadTxn(), addressPrefix.Query("10.0.0.1/8"))
			if address.Status.Kind == kind && address.Status.GetError() == reason {
				fmt.Println(kind, reason)
				return
			}
			<-watch
		}
	}

	wtxn := db.WriteTxn(addresses)
	addresses.Insert(wtxn, &Address{Prefix: "10.0.0.1/8", Device: "eth0", Status: reconciler.StatusPending()})
	wtxn.Commit()

	await(reconciler.StatusKindBlocked, "device eth0 is missing")
	set(&Device{Name: "eth0"})
	await(reconciler.StatusKindBlocked, "device eth0 is not ready")
	set(&Device{Name: "eth0", Up: true})
	await(reconciler.StatusKindDone, "")

	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	// Output:
	// Blocked device eth0 is missing
	// Blocked device eth0 is not ready
	// add 10.0.0.1/8 to eth0
	// Done
}
