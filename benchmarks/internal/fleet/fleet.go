// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package fleet holds agents that follow an etcd, and the etcd, which runs in a process of its own.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// Options determine what a fleet does.
type Options struct {
	// Endpoint is the address of the store, Prefix that of the keys.
	Endpoint, Prefix string
	// Agents is the number of agents.
	Agents int
	// Apply is the operation for a key that was read or written. It is called by several agents at a time.
	Apply func(agent int, key, value string) error
}

// agent is one agent of a fleet. run follows the store until ctx ends. read is closed when the agent has
// read all keys that the store had at first.
type agent interface {
	run(ctx context.Context) error
	read() <-chan struct{}
}

// Fleet is many agents that follow one prefix of one store, each with a connection of its own.
type Fleet struct {
	agents  []agent
	clients []*clientv3.Client
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

// Agents starts agents with Statekeel's source for etcd, a table, and a reconciler with the ledger beside it, all
// with their default options.
func Agents(o Options) (*Fleet, error) { return start(o, newAgent) }

// Watchers starts agents that list, watch, and call the operation at each event: no agent can do less.
func Watchers(o Options) (*Fleet, error) { return start(o, newWatcher) }

func start(o Options, newAgent func(o Options, number int, client *clientv3.Client) (agent, error)) (*Fleet, error) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Fleet{cancel: cancel}
	for number := range o.Agents {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{o.Endpoint}})
		if err == nil {
			f.clients = append(f.clients, client)
			var a agent
			if a, err = newAgent(o, number, client); err == nil {
				f.agents = append(f.agents, a)
				f.wg.Go(func() { f.note(a.run(ctx)) })
			}
		}
		if err != nil {
			return nil, errors.Join(err, f.Stop())
		}
	}
	return f, nil
}

func (f *Fleet) note(err error) {
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.errs = append(f.errs, err)
	}
}

// Await waits until every agent has read all keys that the store had when the fleet was started.
func (f *Fleet) Await(ctx context.Context) error {
	for i, a := range f.agents {
		select {
		case <-a.read():
		case <-ctx.Done():
			return fmt.Errorf("waited for agent %d to read the store: %w", i, context.Cause(ctx))
		}
	}
	return nil
}

// Stop stops the agents and waits for them to end.
func (f *Fleet) Stop() error {
	f.cancel()
	f.wg.Wait()
	for _, client := range f.clients {
		f.note(client.Close())
	}
	return errors.Join(f.errs...)
}

// row is a row for a key of the store.
type row struct{ key, value string }

func (*row) TableHeader() []string { return []string{"Key", "Value"} }
func (r *row) TableRow() []string  { return []string{r.key, r.value} }

// byKey is the primary index of these rows.
var byKey = statedb.Index[*row, string]{
	Name:       "key",
	FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.key)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// keeper fills a table from the store, and reconciles it.
type keeper struct {
	o      Options
	number int
	source *etcd.Source[*row]
	sink   *source.Sink[*row]
	filled <-chan struct{} // closed when the source has filled the table
	loop   *reconciler.Loop[*row]
}

func newAgent(o Options, number int, client *clientv3.Client) (agent, error) {
	a := &keeper{o: o, number: number}
	db := statedb.New()
	table, err := statedb.NewTable(db, "wishes", byKey)
	if err != nil {
		return nil, err
	}
	if a.sink, err = source.New(source.Config[*row]{Name: "store", DB: db, Table: table}); err != nil {
		return nil, err
	}
	_, a.filled = table.Initialized(db.ReadTxn())
	a.source, err = etcd.New(etcd.Config[*row]{
		Client: client, Prefix: o.Prefix, Sink: a.sink,
		Decode: func(key string, value []byte) (*row, error) { return &row{key, string(value)}, nil },
	})
	if err != nil {
		return nil, err
	}
	a.loop, err = reconciler.New(reconciler.Config[*row]{DB: db, Table: table, Operations: a})
	return a, err
}

func (a *keeper) read() <-chan struct{} { return a.filled }

func (a *keeper) run(ctx context.Context) error {
	ended := make(chan error)
	go func() { ended <- a.source.Run(ctx) }()
	err := errors.Join(a.loop.Run(ctx), <-ended)
	a.sink.Close()
	return err
}

// Update implements reconciler.Operations.
func (a *keeper) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *row) error {
	return a.o.Apply(a.number, r.key, r.value)
}

// Delete implements reconciler.Operations. The keys of a benchmark are never deleted.
func (a *keeper) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *row) error {
	return errors.New("a key was deleted")
}

// Prune implements reconciler.Operations.
func (a *keeper) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*row, statedb.Revision]) error {
	return nil
}

// watcher reads the store, follows it with a watch of the client, and calls the operation at each event: no
// agent can do less.
type watcher struct {
	client *clientv3.Client
	prefix string
	apply  func(key, value string) error
	filled chan struct{}
}

func newWatcher(o Options, number int, client *clientv3.Client) (agent, error) {
	return &watcher{
		client: client, prefix: o.Prefix, filled: make(chan struct{}),
		apply: func(key, value string) error { return o.Apply(number, key, value) },
	}, nil
}

func (w *watcher) read() <-chan struct{} { return w.filled }

func (w *watcher) run(ctx context.Context) error {
	list, err := w.client.Get(ctx, w.prefix, clientv3.WithPrefix())
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	for _, kv := range list.Kvs {
		if err := w.apply(string(kv.Key[len(w.prefix):]), string(kv.Value)); err != nil {
			return err
		}
	}
	watch := w.client.Watch(clientv3.WithRequireLeader(ctx), w.prefix, clientv3.WithPrefix(),
		clientv3.WithRev(list.Header.Revision+1), clientv3.WithCreatedNotify())
	for response := range watch {
		if response.Created {
			close(w.filled)
		}
		for _, event := range response.Events {
			if err := w.apply(string(event.Kv.Key[len(w.prefix):]), string(event.Kv.Value)); err != nil {
				return err
			}
		}
	}
	if ctx.Err() == nil {
		return errors.New("a watch has ended")
	}
	return nil
}

// ignoreEnd drops an error that comes from the end of ctx.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
