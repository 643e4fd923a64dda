// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

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

// Fleet is many agents that follow one prefix of one store, each with a connection of its own.
type Fleet interface {
	// Await waits until every agent has read all keys that the store had when the fleet was started.
	Await(ctx context.Context) error
	// List makes every agent read all keys again, one agent after the other, and act on the differences. It
	// returns how many writes of tables that made. Call it once, after Await.
	List(ctx context.Context) (writes uint64, err error)
	// Stop stops the agents and waits for them to end.
	Stop(ctx context.Context) error
}

// FleetOptions determine what a fleet does.
type FleetOptions struct {
	// Endpoint is the address of the store, Prefix that of the keys.
	Endpoint, Prefix string
	// Agents is the number of agents.
	Agents int
	// Apply is the operation for a key that was read or written. It is called by several agents at a time.
	Apply func(agent int, key, value string) error
}

// agent is one agent of a fleet. run follows the store until ctx ends. read is closed when the agent has
// read all keys that the store had at first. list is as [Fleet.List].
type agent interface {
	run(ctx context.Context) error
	read() <-chan struct{}
	list(ctx context.Context) (writes uint64, err error)
}

// fleet runs agents.
type fleet struct {
	agents  []agent
	clients []*clientv3.Client
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

// startFleet starts agents of one kind.
func startFleet(newAgent func(o FleetOptions, number int, client *clientv3.Client) (agent, error)) func(FleetOptions) (Fleet, error) {
	return func(o FleetOptions) (Fleet, error) {
		ctx, cancel := context.WithCancel(context.Background())
		f := &fleet{cancel: cancel}
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
				return nil, errors.Join(err, f.Stop(ctx))
			}
		}
		return f, nil
	}
}

func (f *fleet) note(err error) {
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.errs = append(f.errs, err)
	}
}

func (f *fleet) Await(ctx context.Context) error {
	for i, a := range f.agents {
		select {
		case <-a.read():
		case <-ctx.Done():
			return fmt.Errorf("waited for agent %d to read the store: %w", i, context.Cause(ctx))
		}
	}
	return nil
}

func (f *fleet) List(ctx context.Context) (writes uint64, err error) {
	for _, a := range f.agents {
		n, err := a.list(ctx)
		if err != nil {
			return 0, err
		}
		writes += n
	}
	return writes, nil
}

func (f *fleet) Stop(context.Context) error {
	f.cancel()
	f.wg.Wait()
	for _, client := range f.clients {
		f.note(client.Close())
	}
	return errors.Join(f.errs...)
}

// fleetRow is a row for a key of the store.
type fleetRow struct{ key, value string }

func (*fleetRow) TableHeader() []string { return []string{"Key", "Value"} }
func (r *fleetRow) TableRow() []string  { return []string{r.key, r.value} }

// fleetKey is the primary index of these rows.
var fleetKey = statedb.Index[*fleetRow, string]{
	Name:       "key",
	FromObject: func(r *fleetRow) index.KeySet { return index.NewKeySet(index.String(r.key)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// fleetAgent fills a table from the store, and reconciles it.
type fleetAgent struct {
	o      FleetOptions
	number int
	client *clientv3.Client
	db     *statedb.DB
	table  statedb.RWTable[*fleetRow]
	loop   *reconciler.Loop[*fleetRow]
	// feed is what fills the table: the first, until list replaces it.
	feed *feed
}

// feed is a source with its sink. filled is closed when it has filled the table.
type feed struct {
	source *etcd.Source[*fleetRow]
	sink   *source.Sink[*fleetRow]
	filled <-chan struct{}
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

func newFleetAgent(o FleetOptions, number int, client *clientv3.Client) (agent, error) {
	a := &fleetAgent{o: o, number: number, client: client, db: statedb.New()}
	var err error
	if a.table, err = statedb.NewTable(a.db, "wishes", fleetKey); err != nil {
		return nil, err
	}
	if a.feed, err = a.newFeed(); err != nil {
		return nil, err
	}
	a.loop, err = reconciler.New(reconciler.Config[*fleetRow]{DB: a.db, Table: a.table, Operations: a})
	return a, err
}

// newFeed returns a feed that has to be started.
func (a *fleetAgent) newFeed() (*feed, error) {
	f := &feed{ended: make(chan struct{})}
	var err error
	if f.sink, err = source.New(source.Config[*fleetRow]{Name: "store", DB: a.db, Table: a.table}); err != nil {
		return nil, err
	}
	_, f.filled = a.table.Initialized(a.db.ReadTxn())
	f.source, err = etcd.New(etcd.Config[*fleetRow]{
		Client: a.client, Prefix: a.o.Prefix, Sink: f.sink,
		Decode: func(key string, value []byte) (*fleetRow, error) { return &fleetRow{key, string(value)}, nil },
	})
	return f, err
}

func (f *feed) start(ctx context.Context) {
	ctx, f.cancel = context.WithCancel(ctx)
	go func() {
		defer close(f.ended)
		f.err = f.source.Run(ctx)
	}()
}

// stop ends a feed that was started.
func (f *feed) stop() error {
	f.cancel()
	<-f.ended
	f.sink.Close()
	return f.err
}

func (a *fleetAgent) read() <-chan struct{} { return a.feed.filled }

func (a *fleetAgent) run(ctx context.Context) error {
	a.feed.start(ctx)
	err := a.loop.Run(ctx)
	return errors.Join(err, a.feed.stop())
}

// list replaces the feed by one that knows nothing of the table.
func (a *fleetAgent) list(ctx context.Context) (writes uint64, err error) {
	if err := a.feed.stop(); err != nil {
		return 0, err
	}
	before := a.table.Revision(a.db.ReadTxn())
	next, err := a.newFeed()
	if err != nil {
		return 0, err
	}
	next.start(context.WithoutCancel(ctx))
	a.feed = next
	select {
	case <-next.filled:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return a.table.Revision(a.db.ReadTxn()) - before, nil
}

// Update implements reconciler.Operations.
func (a *fleetAgent) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *fleetRow) error {
	return a.o.Apply(a.number, r.key, r.value)
}

// Delete implements reconciler.Operations. The keys of a benchmark are never deleted.
func (a *fleetAgent) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *fleetRow) error {
	return errors.New("a key was deleted")
}

// Prune implements reconciler.Operations.
func (a *fleetAgent) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*fleetRow, statedb.Revision]) error {
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

func newWatcher(o FleetOptions, number int, client *clientv3.Client) (agent, error) {
	return &watcher{
		client: client, prefix: o.Prefix, filled: make(chan struct{}),
		apply: func(key, value string) error { return o.Apply(number, key, value) },
	}, nil
}

func (w *watcher) read() <-chan struct{} { return w.filled }

// list reads the keys in pages of a thousand.
func (w *watcher) list(ctx context.Context) (writes uint64, err error) {
	from, revision := w.prefix, int64(0)
	for {
		page, err := w.client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(w.prefix)),
			clientv3.WithLimit(1000), clientv3.WithRev(revision))
		if err != nil {
			return 0, err
		}
		if !page.More {
			return 0, nil
		}
		from, revision = string(page.Kvs[len(page.Kvs)-1].Key)+"\x00", page.Header.Revision
	}
}

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
