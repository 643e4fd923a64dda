// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

type row struct {
	Key   string
	Value int
}

func newRows(db *statedb.DB, name string) (statedb.RWTable[*row], error) {
	return statedb.NewTableAny(db, name, nil, nil, statedb.Index[*row, string]{
		Name: "key", Unique: true, FromKey: index.String,
		FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.Key)) },
	})
}

// decode wants a number. At some bad values it does what else a decoder may do.
func decode(key string, value []byte) (*row, error) {
	switch string(value) {
	case "panic":
		panic("cannot say")
	case "null":
		return nil, nil
	case "lines":
		return nil, errors.New("several errors:\n  line 1\n\x1b[2J")
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(value)))
	return &row{Key: key, Value: n}, err
}

// target is what the operations change.
type target struct {
	*reconcilertest.Target[*row]
	mu sync.Mutex
	// fails has the keys whose operations fail, hangs those whose updates wait for the channel.
	fails map[string]bool
	hangs map[string]chan struct{}
}

func newTarget() *target {
	o := &target{fails: map[string]bool{}, hangs: map[string]chan struct{}{}}
	o.Target = reconcilertest.NewTarget(func(r *row) string { return r.Key }, nil)
	o.Decide(func(ctx context.Context, c reconcilertest.Call[*row]) error {
		o.mu.Lock()
		hangs := o.hangs[c.Key]
		o.mu.Unlock()
		if hangs != nil && c.Op == "update" {
			select {
			case <-hangs:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.fails[c.Key] {
			return errors.New("no such device")
		}
		return nil
	})
	return o
}

// List makes the target one that is swept, in tests that want it.
func (o *target) List(_ context.Context, _ statedb.ReadTxn, yield func(*row) bool) error {
	for key := range o.has() {
		if !yield(&row{Key: key}) {
			break
		}
	}
	return nil
}

func (o *target) has() map[string]int {
	rows := map[string]int{}
	for key, r := range o.Objects() {
		rows[key] = r.Value
	}
	return rows
}

func (o *target) setFails(key string, fails bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails[key] = fails
}

// hang has the updates of a key wait until end is called.
func (o *target) hang(key string) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := make(chan struct{})
	o.hangs[key] = c
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.hangs, key)
		close(c)
	})
}

// agent is a program that follows a store.
type agent struct {
	t      *testing.T
	db     *statedb.DB
	table  statedb.RWTable[*row]
	sink   *source.Sink[*row]
	source *etcd.Source[*row]
	loop   *reconciler.Loop[*row]
	target *target
	// prefix is that of the keys, identity the key of the identity, acks what is before acks/NAME.
	prefix, identity, acks string
	stop                   func()
}

// plan is what a test chooses of an agent.
type plan struct {
	client     *clientv3.Client
	base       string // before all its keys
	prefix     string // if not base with "desired/"
	allowEmpty bool
	health     *reconcilertest.Health
	lists      *listLog
	setup      func(*statedb.DB)
	config     func(*etcd.Config[*row])
	sink       func(*source.Config[*row])
	loop       func(*reconciler.Config[*row])
	target     map[string]int // what the target has from before; it is swept if it has something
	tell       func(*etcd.Acks)
}

func newAgent(t *testing.T, p plan) *agent {
	t.Helper()
	a := &agent{
		t: t, db: reconcilertest.NewDB(t),
		target: newTarget(),
		prefix: p.base + "desired/", identity: p.base + "identity", acks: p.base,
	}
	if p.prefix != "" {
		a.prefix = p.prefix
	}
	for key, value := range p.target {
		require.NoError(t, a.target.Update(t.Context(), nil, 0, &row{key, value}))
	}
	var err error
	a.table, err = newRows(a.db, "rows")
	require.NoError(t, err)
	if p.setup != nil {
		p.setup(a.db)
	}
	to := source.Config[*row]{Name: "etcd", DB: a.db, Table: a.table, AllowEmpty: p.allowEmpty}
	if p.sink != nil {
		p.sink(&to)
	}
	a.sink, err = source.New(to)
	require.NoError(t, err)
	cfg := etcd.Config[*row]{
		Client: p.client, Prefix: a.prefix, Identity: a.identity, Decode: decode, Sink: a.sink,
		Check: 300 * time.Millisecond, Relist: time.Hour, Backoff: 50 * time.Millisecond, PageSize: 3,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if p.health != nil {
		cfg.Health = p.health
	}
	if p.lists != nil {
		cfg.Log = slog.New(slog.NewTextHandler(p.lists, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if p.config != nil {
		p.config(&cfg)
	}
	a.source, err = etcd.New(cfg)
	require.NoError(t, err)
	loop := reconciler.Config[*row]{
		DB: a.db, Table: a.table, Operations: a.target,
		Options: []reconciler.Option{reconciler.WithName("loop"), reconciler.WithRetry(10*time.Millisecond, 100*time.Millisecond)},
	}
	if p.loop != nil {
		p.loop(&loop)
	}
	if p.target != nil {
		loop.Lister, loop.OrphansOnly = a.target, true
	}
	a.loop, err = reconciler.New(loop)
	require.NoError(t, err)
	acks := etcd.Acks{Name: "a", Source: a.source, DB: a.db, Loop: a.loop, Prefix: a.acks, TTL: 2 * time.Second}
	if p.tell != nil {
		p.tell(&acks)
	}
	t.Cleanup(a.sink.Close)
	a.stop = reconcilertest.Go(t, func(ctx context.Context) error {
		ended := make(chan error, 3)
		for _, run := range []func(context.Context) error{a.source.Run, a.loop.Run, acks.Run} {
			go func() { ended <- run(ctx) }()
		}
		return errors.Join(<-ended, <-ended, <-ended)
	})
	return a
}

// rows returns what is in the table.
func (a *agent) rows() map[string]int {
	rows := map[string]int{}
	for r := range a.table.All(a.db.ReadTxn()) {
		rows[r.Key] = r.Value
	}
	return rows
}

// stored is what a fresh range read finds.
type stored struct {
	revision uint64
	identity string
	good     map[string]int
	bad      []string
	// written has the revision at which each key was written last.
	written map[string]int64
}

// read reads the store, again if it is away.
func (a *agent) read(client *clientv3.Client) stored {
	a.t.Helper()
	var got *clientv3.TxnResponse
	await(a.t, "reading the store", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		var err error
		got, err = client.Txn(ctx).Then(clientv3.OpGet(a.identity), clientv3.OpGet(a.prefix, clientv3.WithPrefix())).Commit()
		return err
	})
	s := stored{revision: uint64(got.Header.Revision), good: map[string]int{}, written: map[string]int64{}}
	for _, kv := range got.Responses[0].GetResponseRange().Kvs {
		s.identity = string(kv.Value)
	}
	for _, kv := range got.Responses[1].GetResponseRange().Kvs {
		key := string(kv.Key)[len(a.prefix):]
		s.written[key] = kv.ModRevision
		if n, err := strconv.Atoi(strings.TrimSpace(string(kv.Value))); err == nil {
			s.good[key] = n
		} else {
			s.bad = append(s.bad, key)
		}
	}
	slices.Sort(s.bad)
	return s
}

// settle waits until the agent says that it has everything that the store has now, and holds nothing. It
// returns what that is.
func (a *agent) settle(client *clientv3.Client) stored {
	a.t.Helper()
	var s stored
	await(a.t, "the source to be there", func() error {
		if s = a.read(client); s.identity == "" {
			return errors.New("the store has no identity")
		}
		return nil
	})
	await(a.t, "the source to follow", func() error {
		if at := a.source.State().Input; a.source.Store() != s.identity || at < s.revision || a.source.Holding() > 0 {
			if a.source.Store() != s.identity {
				s = a.read(client)
			}
			return fmt.Errorf("it is at %d of %q, holding %d; the store at %d of %q; %+v", at, a.source.Store(), a.source.Holding(), s.revision, s.identity, a.source.State())
		}
		return nil
	})
	return s
}

// compared is what a store and an agent have of the same writes.
type compared struct {
	stored
	rows map[string]int
	told []string // the bad keys that the source names
}

// compare is settle, with what the agent has then. A put that has ended with an error may be committed at
// any time, so the agent may be past what was read: the prefix did not change while both were read.
func (a *agent) compare(client *clientv3.Client) compared {
	a.t.Helper()
	for {
		c := compared{stored: a.settle(client), rows: a.rows(), told: a.badKeys()}
		if again := a.read(client); again.identity == c.identity && maps.Equal(again.written, c.written) {
			return c
		}
	}
}

// ack returns what the agent has said.
func (a *agent) ack(client *clientv3.Client) (ack etcd.Ack, found bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	got, err := client.Get(ctx, a.acks+"acks/a")
	if err != nil || len(got.Kvs) == 0 {
		return ack, false
	}
	require.NoError(a.t, json.Unmarshal(got.Kvs[0].Value, &ack))
	return ack, true
}

// badKeys returns the keys of which the source says that they do not decode.
func (a *agent) badKeys() []string {
	errs, n := a.source.Bad(1000)
	require.Len(a.t, errs, n)
	var keys []string
	for _, err := range errs {
		var key string
		_, scanErr := fmt.Sscanf(err.Error(), "%q", &key)
		require.NoError(a.t, scanErr, "%v does not begin with a key", err)
		keys = append(keys, key[len(a.prefix):])
	}
	slices.Sort(keys)
	return keys
}

// patience is how long a test waits for what takes a second or two on an idle machine.
const patience = 3 * time.Minute

// await waits for a condition; it fails the test when that takes far too long.
func await(t *testing.T, what string, met func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := met()
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(deadline), "waiting for %s: %v", what, err)
		time.Sleep(5 * time.Millisecond)
	}
}

// says returns an error if the last report of health does not contain a text.
func says(h *reconcilertest.Health, text string) error {
	level, message, err := h.Now()
	if last := fmt.Sprintf("%s: %s: %v", level, message, err); !strings.Contains(last, text) {
		return fmt.Errorf("health is %q, wanted %q", last, text)
	}
	return nil
}

// listLog is a log of a source, in which it says why it lists the prefix.
type listLog struct{ testlog.Buffer }

// reasons returns why the prefix was listed, from the second time on.
func (l *listLog) reasons() []string {
	reasons := []string{}
	for line := range strings.Lines(l.String()) {
		if _, why, found := strings.Cut(line, " why="); found && strings.Contains(line, "msg=Listing ") {
			reasons = append(reasons, why)
		}
	}
	return reasons[min(1, len(reasons)):]
}
