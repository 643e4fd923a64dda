// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Services measures how example/services keeps a kernel equal to services, as the command beside it measures kube-proxy:
// with the same input and the same flags. It runs the tables, the derivation, and the reconciler, as shipped, in this
// process; the inputs and the shell of the program are left out.
//
//	go build && ./services -services 10000
//
// inforce.sh measures what the in-force times of the library cost it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/benchmarks/kubeproxy/measure"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func main() {
	var options proxy.Options
	inForce := true
	measure.Main(measure.Program{
		Name: "services",
		Flags: func(flags *flag.FlagSet) {
			// As the command services is shipped.
			flags.DurationVar(&options.Resync, "resync", 10*time.Minute, "how often the kernel is compared; 0: at the start")
			flags.BoolVar(&inForce, "in-force", true, "whether the registry can be asked for rows that are in force; "+
				"false takes a library without in-force times: see inforce.sh")
		},
		New: func() measure.Contender { return &contender{options: options, inForce: inForce} },
	})
}

// contender is a hive with all of example/services but the inputs, whose place it takes.
type contender struct {
	options proxy.Options
	inForce bool
	changed bool // since all services are known
	hive    *hive.Hive
	log     *slog.Logger

	db        *statedb.DB
	services  statedb.RWTable[*proxy.Service]
	slices    statedb.RWTable[*proxy.EndpointSlice]
	frontends statedb.RWTable[*proxy.Frontend]
	loop      *reconciler.Loop[*proxy.Frontend]
	complete  []func(statedb.WriteTxn)
}

// Start starts the hive. That the input is incomplete keeps the reconciler from deleting what it finds.
func (c *contender) Start(ctx context.Context) error {
	c.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c.hive = hive.New(statedb.Cell, job.Cell, cell.SimpleHealthCell, proxy.Cell,
		cell.Provide(c.openTable, c.registry, func() proxy.Options { return c.options }),
		cell.Invoke(func(db *statedb.DB, services statedb.RWTable[*proxy.Service], slices statedb.RWTable[*proxy.EndpointSlice],
			frontends statedb.RWTable[*proxy.Frontend], loop *reconciler.Loop[*proxy.Frontend]) {
			c.db, c.services, c.slices, c.frontends, c.loop = db, services, slices, frontends, loop
			wtxn := db.WriteTxn(services, slices)
			defer wtxn.Commit()
			c.complete = []func(statedb.WriteTxn){
				services.RegisterInitializer(wtxn, "benchmark"), slices.RegisterInitializer(wtxn, "benchmark"),
			}
		}),
	)
	return c.hive.Start(c.log, ctx)
}

func (c *contender) registry() *inspect.Registry {
	if !c.inForce {
		return nil
	}
	return &inspect.Registry{}
}

func (c *contender) openTable(lifecycle cell.Lifecycle) (proxy.Target, error) {
	table, err := kernel.Open("services")
	if err != nil {
		return nil, err
	}
	lifecycle.Append(cell.Hook{OnStop: func(cell.HookContext) error { return table.Close() }})
	return table, nil
}

// Apply writes rows, as an input does. A service whose endpoints change stays as it is.
func (c *contender) Apply(services []measure.Service) error {
	c.changed = c.complete == nil
	wtxn := c.db.WriteTxn(c.services, c.slices)
	defer wtxn.Abort()
	for _, s := range services {
		if _, _, known := c.services.Get(wtxn, proxy.ByName(s.Name)); !known {
			row := &proxy.Service{
				Name: s.Name, Created: created, Addresses: []netip.Addr{s.Addr}, Ports: []proxy.Port{{Protocol: kernel.TCP, Number: s.Port}},
			}
			if _, _, err := c.services.Insert(wtxn, row); err != nil {
				return err
			}
		}
		of := &proxy.EndpointSlice{Name: s.Name, Service: s.Name, Endpoints: make([]proxy.Endpoint, len(s.Endpoints))}
		for i, e := range s.Endpoints {
			of.Ports = []proxy.Port{{Protocol: kernel.TCP, Number: e.Port()}} // all have the same one
			of.Endpoints[i] = proxy.Endpoint{Address: e.Addr(), Ready: true, Serving: true}
		}
		if _, _, err := c.slices.Insert(wtxn, of); err != nil {
			return err
		}
	}
	wtxn.Commit()
	return nil
}

// created is when all services were created.
var created = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Complete waits until all is derived, and then until all of that is in the kernel.
func (c *contender) Complete(ctx context.Context) error {
	wtxn := c.db.WriteTxn(c.services, c.slices)
	for _, complete := range c.complete {
		complete(wtxn)
	}
	c.complete = nil
	wtxn.Commit()
	ready, derived := c.frontends.Initialized(c.db.ReadTxn())
	if !ready {
		select {
		case <-derived:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if rest, err := c.loop.WaitAll(ctx, reconciler.Applied); err != nil {
		return fmt.Errorf("%d services are not in the kernel: %w", len(rest.Keys)+rest.More, err)
	}
	return nil
}

// Stop stops the hive, which closes the table. After changes, it checks that in-force times were measured, or were not.
func (c *contender) Stop() error {
	if c.hive == nil {
		return nil
	}
	err := c.hive.Stop(c.log, context.Background())
	if n := c.loop.Figures().InForce.Count; c.changed && (n > 0) != c.inForce {
		err = errors.Join(err, fmt.Errorf("-in-force is %v, and the library has %d in-force times", c.inForce, n))
	}
	return err
}

// Layout says that an endpoint is the data of an element of one map, and that a service is an element of another one, to a
// chain that draws from its slots.
func (c *contender) Layout() measure.Layout {
	return measure.Layout{
		Endpoint: func(e measure.Element) (netip.AddrPort, bool) {
			if string(e.Set) != "endpoints" {
				return netip.AddrPort{}, false
			}
			return measure.AddrPort(e.Data, 0, 4)
		},
		Service: func(e measure.Element) (netip.AddrPort, bool) {
			if string(e.Set) != "services" {
				return netip.AddrPort{}, false
			}
			return measure.AddrPort(e.Key, 4, 8)
		},
	}
}
