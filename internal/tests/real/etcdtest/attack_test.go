// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"go.etcd.io/etcd/api/v3/authpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// bare is a source without a reconciler, whose Run a test calls.
type bare struct {
	t      *testing.T
	db     *statedb.DB
	table  statedb.RWTable[*row]
	sink   *source.Sink[*row]
	source *etcd.Source[*row]
	admin  *clientv3.Client
}

func newBare(t *testing.T, config func(*etcd.Config[*row])) *bare {
	t.Helper()
	b := &bare{t: t, db: statedb.New(), admin: connect(t, newServers(t, 1)[0].client)}
	var err error
	if b.table, err = newRows(b.db); err == nil {
		b.sink, err = source.New(source.Config[*row]{Name: "etcd", DB: b.db, Table: b.table})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.sink.Close)
	cfg := etcd.Config[*row]{
		Client: b.admin, Prefix: "desired/", Decode: decode, Sink: b.sink, Identity: "identity",
		Check: 300 * time.Millisecond, Relist: time.Hour, Backoff: 50 * time.Millisecond, PageSize: 3,
	}
	config(&cfg)
	if b.source, err = etcd.New(cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

// run calls Run until stop is called, which returns when it has returned.
func (b *bare) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- b.source.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bare) do(ops ...clientv3.Op) int64 {
	b.t.Helper()
	done, err := b.admin.Txn(b.t.Context()).Then(ops...).Commit()
	if err != nil {
		b.t.Fatal(err)
	}
	return done.Header.Revision
}

func (b *bare) rows() string {
	var rows []string
	for r := range b.table.All(b.db.ReadTxn()) {
		rows = append(rows, fmt.Sprintf("%s=%d", r.Key, r.Value))
	}
	return strings.Join(rows, " ")
}

func (b *bare) reaches(at int64, rows string) {
	b.t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for b.source.State().Input < uint64(at) || b.rows() != rows {
		if time.Now().After(deadline) {
			b.t.Fatalf("the table has %q, wanted %q at %d; %d rows are held; %+v", b.rows(), rows, at, b.source.Holding(), b.source.State())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// slowDeletion is a target that takes long to delete.
type slowDeletion struct{ *target }

func (o slowDeletion) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *row) error {
	return reconciler.Requeue(time.Hour)
}

func TestAckOfADeletionThatGoesOnIsNotApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{loop: func(c *reconciler.Config[*row]) { c.Operations = slowDeletion{c.Operations.(*target)} }}, "a", "b")
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(1) })
	w.delete("a")
	at := w.read(w.admin).revision
	ack := w.acked("the ack", func(a etcd.Ack) bool { return a.Revision >= at })
	if ack.Applied(at) {
		t.Errorf("the target has %v, the ack is %+v", w.target.has(), ack)
	}
}

func TestFailureInALargeTableHasItsReason(t *testing.T) {
	long.Only(t)
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) { c.PageSize = 1000 }}, "a")
	for i := 0; i < 20_100; i += 100 {
		var ops []clientv3.Op
		for j := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("desired/k%d", i+j), "1"))
		}
		if _, err := w.admin.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	w.target.setFails("a", true)
	at := uint64(w.put("a", "7"))
	ack := w.acked("the failure", func(a etcd.Ack) bool { return a.Revision >= at && a.Failing == 1 })
	if !strings.Contains(fmt.Sprint(ack.Problems), "no such device") {
		t.Errorf("the ack is %+v", ack)
	}
}

func TestAgentIsAliveAfterAllKeysWereDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	w.acked("the ack", func(a etcd.Ack) bool { return a.Revision > 0 })
	before := w.source.Store()
	if _, err := w.admin.Delete(t.Context(), "", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	w.put("a", "5")
	w.acked("the ack of the new identity", func(a etcd.Ack) bool { return a.Store != "" && a.Store != before && a.Revision > 0 })
	w.awaitAlive()
}

// withAuth makes an agent's user, and returns a client of it that counts how often it authenticates.
func withAuth(t *testing.T, s *server, address string) (root, client *clientv3.Client, logins *atomic.Int64) {
	t.Helper()
	root = connect(t, s.client)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(root.Put(t.Context(), "desired/a", "1"))
	do(root.RoleAdd(t.Context(), "agent"))
	for _, prefix := range []string{"desired/", "identity", "acks/", "alive/"} {
		do(root.RoleGrantPermission(t.Context(), "agent", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(authpb.READWRITE)))
	}
	for _, user := range []string{"agent", "root"} {
		do(root.UserAdd(t.Context(), user, user))
		do(root.UserGrantRole(t.Context(), user, user))
	}
	do(root.AuthEnable(t.Context()))
	logins = &atomic.Int64{}
	count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/Authenticate") {
			logins.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{address}, Logger: zap.NewNop(), Username: "agent", Password: "agent", DialTimeout: 10 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return connectAs(t, "root", s.client), client, logins
}

// A log-in costs etcd tens of milliseconds of CPU.
func TestAgentWithAPasswordLogsInOnce(t *testing.T) {
	long.Only(t)
	t.Parallel()
	s := newServers(t, 1)[0]
	root, client, logins := withAuth(t, s, s.client)
	w := &world{server: s, admin: root}
	w.agent = newAgent(t, plan{client: client})
	w.equal()
	at := uint64(w.put("b", "2"))
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) })
	// A connection that a busy machine loses is another log-in, so the best of three times counts.
	fewest := int64(math.MaxInt64)
	for try := 0; try < 3 && fewest > 1; try++ {
		before := logins.Load()
		time.Sleep(5 * time.Second)
		fewest = min(fewest, int64(logins.Load()-before))
	}
	if fewest > 1 {
		t.Errorf("the agent, which is idle, has logged in %d times or more in each 5 s", fewest)
	}
}

func TestAgentSurvivesTheLossOfItsToken(t *testing.T) {
	long.Only(t)
	t.Parallel()
	s := newServers(t, 1)[0]
	root, client, _ := withAuth(t, s, s.client)
	w := &world{server: s, admin: root}
	w.agent = newAgent(t, plan{client: client})
	w.equal()
	for i := range 3 {
		s.kill()
		time.Sleep(time.Second)
		s.start()
		at := uint64(w.put("b", fmt.Sprint(i)))
		w.equal()
		w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) })
	}
	// The permission is lost, and comes back.
	if _, err := w.admin.RoleRevokePermission(t.Context(), "agent", "desired/", clientv3.GetPrefixRangeEnd("desired/")); err != nil {
		t.Fatal(err)
	}
	s.kill()
	s.start()
	w.put("c", "9")
	time.Sleep(2 * time.Second)
	if len(w.rows()) != 2 || w.source.State().Connected {
		t.Errorf("%v %+v", w.rows(), w.source.State())
	}
	if _, err := w.admin.RoleGrantPermission(t.Context(), "agent", "desired/", clientv3.GetPrefixRangeEnd("desired/"), clientv3.PermissionType(authpb.READ)); err != nil {
		t.Fatal(err)
	}
	at := uint64(w.put("d", "9"))
	w.equal()
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) })
}

func TestProblemsAreOneLineEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) {
		c.Decode = func(key string, value []byte) (*row, error) {
			if string(value) == "lines" {
				return nil, errors.New("several errors:\n  line 1\n\x1b[2J")
			}
			return decode(key, value)
		}
	}}, "a")
	w.put("b", "lines")
	ack := w.acked("the ack", func(a etcd.Ack) bool { return a.Bad == 1 })
	if strings.ContainsAny(strings.Join(ack.Problems, ""), "\n\x1b") {
		t.Errorf("%q", ack.Problems)
	}
}

// The derivation of a table may be made later, so it is no error at the start.
func TestPathWithAnInputThatIsMissingIsReported(t *testing.T) {
	t.Parallel()
	var told healthReports
	p := plan{tell: func(a *etcd.Acks) { a.Loop, a.Health = loopOf{a.Loop, "derived"}, &told }}
	p.setup = func(db *statedb.DB) error {
		_, err := statedb.NewTableAny(db, "derived", nil, nil, statedb.Index[*row, string]{
			Name: "key", Unique: true, FromKey: index.String,
			FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.Key)) },
		})
		return err
	}
	w := newWorld(t, p, "a")
	const missing = "the table derived has no input yet"
	await(t, "health", func() error { return told.says(missing) })
	w.acked("the ack", func(a etcd.Ack) bool { return strings.Contains(fmt.Sprint(a.Problems), missing) })
}

func TestHealthNamesWhyEtcdIsAway(t *testing.T) {
	t.Parallel()
	var told healthReports
	a := newAgent(t, plan{client: connect(t, "127.0.0.1:1"), tell: func(a *etcd.Acks) { a.Health = &told }})
	const cause = "connect: connection refused"
	await(t, "the health of the acks", func() error { return told.says(cause) })
	await(t, "the state of the source", func() error {
		if state := a.source.State(); state.Err == nil || !strings.Contains(state.Err.Error(), cause) {
			return fmt.Errorf("it is %+v", state)
		}
		return nil
	})
}

func TestAckOfTheProcessBeforeDoesNotLiveOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	at := uint64(w.put("a", "2"))
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) })
	w.stop()
	// The next process reaches the store and takes long to list the prefix.
	listed := make(chan struct{})
	next := newAgent(t, plan{client: connect(t, w.server.client), config: func(c *etcd.Config[*row]) {
		c.Decode = func(key string, value []byte) (*row, error) { <-listed; return decode(key, value) }
	}})
	defer next.stop()
	defer close(listed)
	w.awaitAlive()
	time.Sleep(1500 * time.Millisecond)
	if ack, _ := w.ack(w.admin); ack.Applied(at) {
		t.Errorf("the agent is alive, has applied nothing, and its ack is %+v", ack)
	}
}

func TestCompactionWhileThePrefixIsPaged(t *testing.T) {
	long.Only(t)
	t.Parallel()
	b := newBare(t, func(c *etcd.Config[*row]) { c.PageSize, c.Check, c.Relist = 1, 30*time.Millisecond, time.Millisecond })
	for i := range 100 {
		b.do(clientv3.OpPut(fmt.Sprintf("desired/%02d", i), fmt.Sprint(i)))
	}
	defer b.run()()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range 400 {
			put, err := b.admin.Put(context.Background(), fmt.Sprintf("desired/%02d", i%100), fmt.Sprint(i))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = b.admin.Compact(context.Background(), put.Header.Revision)
			time.Sleep(2 * time.Millisecond)
		}
	}()
	<-ended
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("%02d=%d", i, 300+i))
	}
	b.reaches(b.do(clientv3.OpGet("x")), strings.Join(want, " "))
}

// Decode may return a nil pointer, and no error, for a value such as "null".
func TestNilObjectIsABadKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) {
		c.Decode = func(key string, value []byte) (*row, error) {
			if string(value) == "null" {
				return nil, nil
			}
			return decode(key, value)
		}
	}}, "a")
	w.put("b", "null")
	at := uint64(w.put("c", "3"))
	ack := w.acked("the ack", func(a etcd.Ack) bool { return a.Bad == 1 && strings.Contains(fmt.Sprint(a.Problems), `"desired/b"`) })
	time.Sleep(1500 * time.Millisecond)
	if ack, _ = w.ack(w.admin); ack.Revision < at {
		t.Errorf("other keys wait: %+v; %v, %+v", ack, w.lists.reasons(), w.source.State())
	}
	at = uint64(w.put("b", "2"))
	time.Sleep(1500 * time.Millisecond)
	if ack, _ = w.ack(w.admin); !ack.Applied(at) {
		t.Errorf("the key is mended: %+v; %v, %+v", ack, w.lists.reasons(), w.source.State())
	}
}

func TestPausedObjectsAndDeletionsHaveAReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{loop: func(c *reconciler.Config[*row]) { c.Operations = slowDeletion{c.Operations.(*target)} }}, "a", "b")
	w.delete("a")
	ack := w.acked("the deletion", func(a etcd.Ack) bool { return a.Blocked == 1 })
	if !strings.Contains(fmt.Sprint(ack.Problems), "a: ") {
		t.Errorf("the deletion: %+v", ack)
	}
	w.loop.PauseObjects(func(r *row) bool { return r.Key == "c" })
	w.put("c", "3")
	ack = w.acked("the pause", func(a etcd.Ack) bool { return a.Paused == 1 })
	if !strings.Contains(fmt.Sprint(ack.Problems), "paused") {
		t.Errorf("one paused object: %+v", ack)
	}
	w.loop.Pause()
	w.put("d", "3")
	time.Sleep(2500 * time.Millisecond)
	if ack, _ = w.ack(w.admin); !strings.Contains(fmt.Sprint(ack.Problems), "reconciler is paused") {
		t.Errorf("the whole pause: %+v", ack)
	}
}

func ownerOf(r *row) string {
	if r.Value >= 1000 {
		return "second"
	}
	return "etcd"
}

func TestTakenRowsAreNamedUntilTheirKeysGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{sink: func(c *source.Config[*row]) { c.Owner = ownerOf }}, "a", "b", "c")
	wtxn := w.db.WriteTxn(w.table)
	for _, taken := range []*row{{"a", 1000}, {"b", 1001}} {
		if _, _, err := w.table.Insert(wtxn, taken); err != nil {
			t.Fatal(err)
		}
	}
	wtxn.Commit()
	w.put("a", "5")
	ack := w.acked("the rejection", func(a etcd.Ack) bool { return a.Bad == 1 })
	if !strings.Contains(fmt.Sprint(ack.Problems), "rejected") {
		t.Errorf("the ack is %+v", ack)
	}
	w.delete("a")
	at := uint64(w.put("c", "7"))
	w.acked("the deletion", func(a etcd.Ack) bool { return a.Revision >= at && a.Bad == 0 })
	w.have(map[string]int{"a": 1000, "b": 1001, "c": 7})
	// All keys go in the same store: rows of the other source stay.
	w.proxy.setRefuse(true)
	w.delete("", clientv3.WithPrefix())
	w.put("x", "bad")
	w.compact()
	w.proxy.setRefuse(false)
	w.have(map[string]int{"a": 1000, "b": 1001})
	await(t, "it follows", func() error {
		if s := w.source.State(); s.Input < w.read(w.admin).revision-5 || w.source.Holding() > 0 {
			return fmt.Errorf("%+v %d", s, w.source.Holding())
		}
		return nil
	})
	// The other store is empty.
	w.put("c", "8")
	w.have(map[string]int{"a": 1000, "b": 1001, "c": 8})
	w.server.wipe()
	await(t, "the hold", func() error {
		if h := w.source.Holding(); h != 1 {
			return fmt.Errorf("%d", h)
		}
		return nil
	})
	w.put("d", "9")
	w.have(map[string]int{"a": 1000, "b": 1001, "d": 9})
}

func TestChainWithAnErrorIsNotApplied(t *testing.T) {
	t.Parallel()
	var derived statedb.RWTable[*row]
	var d *derive.Derived[*row, *row]
	broken := make(chan struct{})
	var p plan
	p.setup = func(db *statedb.DB) (err error) {
		derived, err = statedb.NewTableAny(db, "derived", nil, nil, statedb.Index[*row, string]{
			Name: "key", Unique: true, FromKey: index.String,
			FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.Key)) },
		})
		return err
	}
	p.loop = func(c *reconciler.Config[*row]) {
		var err error
		d, err = derive.Each(derive.Config[*row]{DB: c.DB}, c.Table, derived, func(r *row) ([]*row, error) {
			switch r.Value {
			case 13:
				return nil, errors.New("unlucky")
			case 14:
				panic("worse")
			}
			return []*row{{"x-" + r.Key, r.Value}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Table = derived
	}
	w := newWorld(t, p, "a", "b")
	defer w.stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first := uint64(w.put("a", "2"))
	time.Sleep(1500 * time.Millisecond)
	if ack, _ := w.ack(w.admin); ack.Revision > 0 {
		t.Errorf("the derivation does not run: %+v", ack)
	}
	go func() { _ = d.Run(ctx); close(broken) }()
	w.acked("the first", func(a etcd.Ack) bool { return a.Applied(first) })
	for _, value := range []string{"13", "14"} {
		at := uint64(w.put("a", value))
		ack := w.acked("the error", func(a etcd.Ack) bool { return a.Revision >= at })
		if ack.Applied(at) || len(ack.Problems) == 0 {
			t.Errorf("%+v", ack)
		}
		at = uint64(w.put("a", "15"))
		w.acked("the value", func(a etcd.Ack) bool { return a.Applied(at) })
		if has := w.target.has(); !maps.Equal(has, map[string]int{"x-a": 15, "x-b": 2}) {
			t.Errorf("%v", has)
		}
	}
	at := uint64(w.put("a", "13"))
	w.acked("the error", func(a etcd.Ack) bool { return a.Revision >= at && a.Bad == 1 })
	w.server.wipe()
	await(t, "the hold", func() error {
		if h := w.source.Holding(); h != 2 {
			return fmt.Errorf("%d", h)
		}
		return nil
	})
	at = uint64(w.put("c", "1"))
	w.acked("the new store", func(a etcd.Ack) bool { return a.Applied(at) })
	if has := w.target.has(); !maps.Equal(has, map[string]int{"x-c": 1}) {
		t.Errorf("%v", has)
	}
	cancel()
	<-broken
	at = uint64(w.put("c", "2"))
	time.Sleep(1500 * time.Millisecond)
	if ack, _ := w.ack(w.admin); ack.Revision >= at {
		t.Errorf("the derivation does not run: %+v", ack)
	}
}

func TestPrefixesOfAllKinds(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"d", "desired", "\xff", "a\xff", "ü/", "\x00", "d/\x00"} {
		b := newBare(t, func(c *etcd.Config[*row]) { c.Prefix = prefix; c.PageSize = 2 })
		want := []string{}
		for i, key := range []string{"", "\x00", "a", "ä", "\xff"} {
			b.do(clientv3.OpPut(prefix+key, fmt.Sprint(i)))
			want = append(want, fmt.Sprintf("%s=%d", key, i))
		}
		b.do(clientv3.OpPut("e", "no"), clientv3.OpPut("c", "no"))
		end := b.run()
		at := b.do(clientv3.OpPut(prefix+"a", "2"), clientv3.OpPut(prefix+"ab", "7"))
		b.reaches(at, strings.Join([]string{want[0], want[1], want[2], "ab=7", want[3], want[4]}, " "))
		end()
	}
}

func TestPausesOfTheLoopShowInTheAck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	w.loop.Pause()
	at := uint64(w.put("b", "2"))
	ack := w.acked("the pause", func(a etcd.Ack) bool { return len(a.Problems) > 0 })
	if ack.Applied(at) {
		t.Errorf("%+v", ack)
	}
	w.loop.Resume()
	w.acked("the resume", func(a etcd.Ack) bool { return a.Applied(at) })
	w.loop.PauseObjects(func(r *row) bool { return r.Key == "a" })
	w.delete("a")
	at = uint64(w.put("b", "3"))
	ack = w.acked("the paused deletion", func(a etcd.Ack) bool { return a.Revision >= at })
	if ack.Applied(at) {
		t.Errorf("%+v %v", ack, w.target.has())
	}
	if err := w.loop.Reconfigure(func(s *reconciler.Settings) { s.Concurrency = 3 }); err != nil {
		t.Fatal(err)
	}
	w.loop.Resume()
	at = uint64(w.put("b", "4"))
	w.acked("the resume", func(a etcd.Ack) bool { return a.Applied(at) })
}

func TestSlowConnectionListsLargeValues(t *testing.T) {
	long.Only(t)
	t.Parallel()
	s := newServers(t, 1)[0]
	admin, p := connect(t, s.client), newProxy(t, s.client)
	spaces := strings.Repeat(" ", 100<<10)
	for i := range 40 {
		if _, err := admin.Put(t.Context(), fmt.Sprint("desired/", i), fmt.Sprint(i)+spaces); err != nil {
			t.Fatal(err)
		}
	}
	p.slow = 20 * time.Millisecond
	w := &world{server: s, admin: admin, proxy: p}
	w.agent = newAgent(t, plan{client: connect(t, p.address), config: func(c *etcd.Config[*row]) { c.Check, c.PageSize = time.Second, 0 }})
	w.equal()
}

func TestObjectWithoutAKeyHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := &bare{t: t, db: statedb.New(), admin: connect(t, newServers(t, 1)[0].client)}
	var err error
	b.table, err = statedb.NewTableAny(b.db, "rows", nil, nil, statedb.Index[*row, string]{
		Name: "key", Unique: true, FromKey: index.String,
		FromObject: func(r *row) index.KeySet {
			if r.Value == 66 {
				panic("no key")
			}
			return index.NewKeySet(index.String(r.Key))
		},
	})
	if err == nil {
		b.sink, err = source.New(source.Config[*row]{Name: "etcd", DB: b.db, Table: b.table})
	}
	lists := &listLog{}
	if err == nil {
		b.source, err = etcd.New(etcd.Config[*row]{
			Client: b.admin, Prefix: "desired/", Decode: decode, Sink: b.sink, Identity: "identity", Log: slog.New(lists),
			Check: 300 * time.Millisecond, Relist: time.Hour, Backoff: 50 * time.Millisecond, PageSize: 3,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.sink.Close)
	b.do(clientv3.OpPut("desired/a", "1"), clientv3.OpPut("desired/b", "2"))
	defer b.run()()
	b.reaches(2, "a=1 b=2")
	b.do(clientv3.OpPut("desired/b", "66"))
	b.do(clientv3.OpPut("desired/c", "3"))
	b.reaches(1, "a=1 b=2 c=3")
	time.Sleep(2 * time.Second)
	if n, state := len(lists.reasons()), b.source.State(); n > 1 || !state.Connected {
		t.Errorf("listed %d times, %+v", n, state)
	}
	at := b.do(clientv3.OpPut("desired/b", "4"))
	b.reaches(at, "a=1 b=4 c=3")
}

// A load balancer or a firewall may forget a connection, and pass on new ones. Only the keep-alive of the
// client, which Config.Client asks for, finds out.
func TestConnectionThatIsLostIsReplaced(t *testing.T) {
	long.Only(t)
	t.Parallel()
	s := newServers(t, 1)[0]
	p := newProxy(t, s.client)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{p.address}, Logger: zap.NewNop(), DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	w := &world{server: s, admin: connect(t, s.client), proxy: p}
	w.agent = newAgent(t, plan{client: client})
	w.put("a", "1")
	w.equal()
	dead := p.lose()
	began := time.Now()
	w.put("b", "2")
	defer p.setRefuse(true)
	w.equal()
	t.Logf("%d dead connections were replaced after %s", dead, time.Since(began))
}

// The client asks the members in turn: a third of the comparisons go to the one that hangs.
func TestMemberThatHangsEndsNoWatchOnAnother(t *testing.T) {
	long.Only(t)
	t.Parallel()
	servers := newServers(t, 3)
	addresses := addressesOf(servers)
	w := &world{admin: connect(t, addresses[1:]...)}
	w.agent = newAgent(t, plan{client: connect(t, addresses...), tell: forHours, config: func(c *etcd.Config[*row]) { c.Check = 500 * time.Millisecond }})
	w.put("a", "1")
	w.settle(w.admin)
	if err := servers[0].process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.put("a", "2")
	w.settle(w.admin)
	// The first of them may be on the member that hangs.
	since, connections := w.source.State().Since, 0
	for range 50 {
		time.Sleep(100 * time.Millisecond)
		if now := w.source.State().Since; !now.Equal(since) {
			since, connections = now, connections+1
		}
	}
	if connections > 2 {
		t.Errorf("the source connected or lost its connection %d times in 10 checks", connections)
	}
	if err := servers[0].process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

func TestMemberThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	servers := newServers(t, 3)
	addresses := addressesOf(servers)
	w := &world{admin: connect(t, addresses[1:]...)}
	w.agent = newAgent(t, plan{client: connect(t, addresses...), config: func(c *etcd.Config[*row]) { c.Check = 2 * time.Second }})
	w.put("a", "1")
	w.settle(w.admin)
	if err := servers[0].process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		w.put("a", fmt.Sprint(i))
		w.settle(w.admin)
	}
	if err := servers[0].process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
