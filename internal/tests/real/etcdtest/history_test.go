// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// seeds returns the first seed of random histories, and how many there are: one with the seed in STATEKEEL_ETCD_SEED, if
// that is set.
func seeds(t *testing.T, n int) (first, number uint64) {
	text, set := os.LookupEnv("STATEKEEL_ETCD_SEED")
	if !set {
		return rand.Uint64N(1e9), uint64(long.Times(n))
	}
	first, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return first, 1
}

// At the end of each history the table equals a fresh range read.
func TestTableEqualsTheStoreAfterRandomHistories(t *testing.T) {
	t.Parallel()
	first, n := seeds(t, 8)
	s := newServers(t, 1)[0]
	admin := connect(t, s.client)
	happened := map[string]int{}
	for seed := first; seed < first+n && !t.Failed(); seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			newHistory(t, s, admin, seed, happened).run()
		})
	}
	t.Logf("seeds from %d; the server was killed %d times, %d of them with its data; %v", first, s.killed, s.wiped, happened)
}

// An ack never says applied of what is not in the target. The ack is written once a second at most, so these
// histories take longer, and run side by side.
func TestAcksAreTrueInRandomHistories(t *testing.T) {
	t.Parallel()
	first, n := seeds(t, 1)
	s := newServers(t, 1)[0]
	admin := connect(t, s.client)
	all := make([]map[string]int, n)
	t.Run("walks", func(t *testing.T) {
		for i := range all {
			all[i] = map[string]int{}
			t.Run(fmt.Sprint("seed=", first+uint64(i)), func(t *testing.T) {
				t.Parallel()
				newHistory(t, s, admin, first+uint64(i), all[i]).walk(8 * time.Second)
			})
		}
	})
	happened := map[string]int{}
	for _, one := range all {
		for what, n := range one {
			happened[what] += n
		}
	}
	t.Logf("seeds from %d; %v", first, happened)
}

// walk is run for a time, without what concerns other users of the store.
func (h *history) walk(lasts time.Duration) {
	defer h.tell()
	// While a key is bad, an ack says nothing.
	h.oddness = 60
	h.step(63)
	for began := time.Now(); time.Since(began) < lasts && !h.Failed(); {
		n := h.rand.IntN(104)
		// The rest is mostly what the loop and the acks see.
		if n >= 63 && n < 91 && h.rand.IntN(5) > 0 || n >= 86 && n < 91 {
			n = 92 + h.rand.IntN(14)
		}
		if n >= 104 {
			h.resumeIntoAHang()
		} else {
			h.step(n)
		}
		for range h.rand.IntN(8) {
			h.checkAck()
			time.Sleep(time.Duration(h.rand.IntN(40)) * time.Millisecond)
		}
	}
	h.proxy.thaw()
	h.proxy.setRefuse(false)
	h.told()
}

// resumeIntoAHang changes keys while they are paused, and ends the pause when an operation hangs.
func (h *history) resumeIntoAHang() {
	h.free()
	h.agent.loop.PauseObjects(func(*row) bool { return true })
	key := h.key()
	for _, key := range []string{h.key(), key, h.key()} {
		h.putGood(key)
	}
	time.Sleep(time.Duration(h.rand.IntN(300)) * time.Millisecond)
	h.hang(key)
	h.step(95)
	for range 75 {
		h.checkAck()
		time.Sleep(20 * time.Millisecond)
	}
}

// history is one random history of a store and of an agent.
type history struct {
	*testing.T
	rand     *rand.Rand
	server   *server
	proxy    *proxy
	admin    *clientv3.Client
	agent    *agent
	happened map[string]int
	log      []string

	value int
	// values has every value of a key that decodes.
	values map[string]map[int]bool
	// sure has what the table had for a key when the agent had settled last. A key is not in it if
	// it has been deleted, or put with a value that decodes, since; nil means no row.
	sure map[string]*int
	// late: a write that took too long may be committed at any time, so nothing is sure any more.
	late bool
	// mustPut: the prefix may be empty in a store that was replaced, or that is listed for the first time: then a row
	// that came beside the list, and whose key has turned bad, is held.
	mustPut bool
	// oddness: two of so many values do not decode.
	oddness int
	// revoked is a lease that was taken from the agent.
	revoked int64
	// mustTell: the keys of the agent were deleted, or the loop was held up, so the history ends with an ack.
	mustTell bool
	// gone has the revision at which a key was deleted, unless it was put since.
	gone map[string]int64
	// hung ends the operations that hang, by key.
	hung map[string]func()
}

var keysOfHistories = []string{"a", "b", "c/1", "c/2", "d", "e", "f", "g"}

func newHistory(t *testing.T, s *server, admin *clientv3.Client, seed uint64, happened map[string]int) *history {
	h := &history{
		T: t, rand: rand.New(rand.NewPCG(seed, 1)), server: s, admin: admin, happened: happened,
		values: map[string]map[int]bool{}, sure: map[string]*int{}, proxy: newProxy(t, s.client),
		gone: map[string]int64{}, hung: map[string]func(){}, oddness: 6, mustPut: true,
	}
	t.Cleanup(h.free)
	for _, key := range keysOfHistories {
		h.values[key], h.sure[key] = map[int]bool{}, nil
	}
	base := fmt.Sprintf("history/%d/", seed)
	for range h.rand.IntN(4) {
		h.putSomething(base + "desired/")
	}
	// Most histories have no list by time, which would hide what the watch has lost.
	relist := time.Hour
	if h.rand.IntN(5) == 0 {
		relist = 200 * time.Millisecond
	}
	// In some a compaction is inside each list.
	if h.rand.IntN(3) == 0 {
		h.compactAlways()
	}
	h.agent = newAgent(t, plan{
		client: connect(t, h.proxy.address), base: base, allowEmpty: h.rand.IntN(3) == 0,
		loop: func(c *reconciler.Config[*row]) {
			if h.rand.IntN(3) > 0 {
				workers(c)
			}
		},
		config: func(c *etcd.Config[*row]) {
			c.Check, c.Relist, c.PageSize = 100*time.Millisecond, relist, 1+h.rand.IntN(4)
			c.Backoff = 20 * time.Millisecond
		},
	})
	return h
}

func (h *history) run() {
	defer h.tell()
	h.server.t = h.T
	for range 10 + h.rand.IntN(30) {
		h.step(h.rand.IntN(112))
		h.checkAck()
		if h.rand.IntN(4) == 0 {
			time.Sleep(time.Duration(h.rand.IntN(30)) * time.Millisecond)
		}
	}
	h.note("end")
	h.proxy.thaw()
	h.proxy.setRefuse(false)
	h.proxy.setSlow(0)
	h.settle()
	if h.rand.IntN(6) == 0 || h.revoked != 0 || h.mustTell {
		h.told()
	}
}

// tell logs what has happened in a history that fails.
func (h *history) tell() {
	if h.Failed() {
		for _, line := range h.log {
			h.Log(line)
		}
	}
}

// note keeps what happens, for a history that fails.
func (h *history) note(what string, args ...any) {
	text := fmt.Sprintf(what, args...)
	h.log = append(h.log, fmt.Sprintf("%s %s", time.Now().Format("05.000"), text))
	name, _, _ := strings.Cut(text, " ")
	h.happened[name]++
}

// do carries out an operation of the store, again if it is away.
func (h *history) do(what string, call func(ctx context.Context) error) {
	h.Helper()
	await(h.T, what, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		err := call(ctx)
		h.late = h.late || ctx.Err() != nil
		return err
	})
}

// put returns the operation that puts a random value, most of which decode.
func (h *history) put(prefix, key string) clientv3.Op {
	delete(h.gone, key)
	value := "bad"
	switch h.rand.IntN(h.oddness) {
	case 0:
	case 1:
		value = "panic"
	default:
		h.value++
		h.values[key][h.value] = true
		delete(h.sure, key)
		value = strconv.Itoa(h.value)
	}
	h.note("put %s=%s", key, value)
	return clientv3.OpPut(prefix+key, value)
}

func (h *history) delete(prefix, key string) clientv3.Op {
	h.note("delete %s", key)
	delete(h.sure, key)
	return clientv3.OpDelete(prefix + key)
}

func (h *history) key() string { return keysOfHistories[h.rand.IntN(len(keysOfHistories))] }

func (h *history) putSomething(prefix string) {
	op := h.put(prefix, h.key())
	h.do("a put", func(ctx context.Context) error {
		_, err := h.admin.Do(ctx, op)
		return err
	})
}

// compactAlways compacts the store all the time, until the history ends.
func (h *history) compactAlways() {
	h.note("compact-always")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	h.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			// It fails while the server is away.
			within, end := context.WithTimeout(ctx, time.Second)
			if got, err := h.admin.Get(within, "x"); err == nil {
				_, _ = h.admin.Compact(within, got.Header.Revision)
			}
			end()
			time.Sleep(2 * time.Millisecond)
		}
	}()
}

// forget: the store may have lost everything, so a bad key has no row that the agent must have.
func (h *history) forget() {
	clear(h.sure)
	clear(h.gone)
	h.mustPut = true
}

// step does one of the things that happen, by a number below 112.
func (h *history) step(n int) {
	prefix := h.agent.prefix
	switch {
	case n < 41:
		h.putSomething(prefix)
	case n < 55:
		h.commit("a deletion", h.delete(prefix, h.key()))
	case n < 63:
		var ops []clientv3.Op
		h.note("transaction")
		for i, key := range h.rand.Perm(len(keysOfHistories))[:3] {
			if i == 0 {
				ops = append(ops, h.delete(prefix, keysOfHistories[key]))
			} else {
				ops = append(ops, h.put(prefix, keysOfHistories[key]))
			}
		}
		h.commit("a transaction", ops...)
	case n < 64:
		h.note("delete-all")
		clear(h.sure)
		h.do("a deletion", func(ctx context.Context) error {
			_, err := h.admin.Delete(ctx, prefix, clientv3.WithPrefix())
			return err
		})
	case n < 71:
		h.note("compact")
		now := h.agent.read(h.admin)
		h.do("a compaction", func(ctx context.Context) error {
			_, err := h.admin.Compact(ctx, int64(now.revision))
			if err != nil && ctx.Err() == nil && err.Error() == "etcdserver: mvcc: required revision has been compacted" {
				return nil
			}
			return err
		})
	case n < 77:
		h.note("cut")
		h.proxy.cut()
	case n < 81:
		h.note("refuse")
		h.proxy.setRefuse(true)
	case n < 86:
		h.note("accept")
		h.proxy.setRefuse(false)
		h.proxy.thaw()
	case n < 87:
		h.note("freeze")
		h.proxy.freeze()
	case n < 88:
		// A page takes longer than some of the changes beside it.
		h.note("slow")
		h.proxy.setSlow(time.Duration(1+h.rand.IntN(20)) * time.Millisecond)
	case n < 89:
		h.note("kill")
		h.server.kill()
		h.server.start()
	case n < 90:
		h.note("wipe")
		h.forget()
		h.server.wipe()
	case n < 91:
		h.note("identity-deleted")
		h.forget()
		h.do("deleting the identity", func(ctx context.Context) error { _, err := h.admin.Delete(ctx, h.agent.identity); return err })
	case n < 92:
		h.revoke()
	case n < 95:
		h.pause()
	case n < 97:
		h.note("resume")
		h.agent.loop.Resume()
	case n < 100:
		h.hang(h.key())
	case n < 102:
		key := h.key()
		h.mustTell = true
		h.note("fails %s", key)
		h.agent.target.setFails(key, h.rand.IntN(2) == 0)
	case n < 104:
		h.cleanUp()
	default:
		h.note("settle")
		h.proxy.thaw()
		h.proxy.setRefuse(false)
		h.proxy.setSlow(0)
		h.settle()
	}
}

// commit carries out operations in one transaction, and keeps what it deletes.
func (h *history) commit(what string, ops ...clientv3.Op) {
	h.do(what, func(ctx context.Context) error {
		done, err := h.admin.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			return err
		}
		for _, op := range ops {
			if op.IsDelete() {
				h.gone[string(op.KeyBytes())[len(h.agent.prefix):]] = done.Header.Revision
			}
		}
		return nil
	})
}

// pause pauses everything, or some objects.
func (h *history) pause() {
	h.mustTell = true
	if h.rand.IntN(3) == 0 {
		h.note("pause")
		h.agent.loop.Pause()
		return
	}
	some := map[string]bool{}
	for _, key := range keysOfHistories {
		some[key] = h.rand.IntN(2) == 0
	}
	h.note("pause-objects %v", some)
	h.agent.loop.PauseObjects(func(r *row) bool { return some[r.Key] })
}

// hang has the updates of a key hang, or ends that.
func (h *history) hang(key string) {
	h.mustTell = true
	h.note("hang %s", key)
	if end, is := h.hung[key]; is {
		delete(h.hung, key)
		end()
	} else {
		h.hung[key] = h.agent.target.hang(key)
	}
}

// free ends all that holds up the loop.
func (h *history) free() {
	for _, end := range h.hung {
		end()
	}
	clear(h.hung)
	for _, key := range keysOfHistories {
		h.agent.target.setFails(key, false)
	}
	h.agent.loop.Resume()
}

// cleanUp deletes keys of the agent.
func (h *history) cleanUp() {
	h.mustTell = true
	for i, key := range []string{"acks/a", "alive/a"} {
		if h.rand.IntN(2) == i {
			continue
		}
		h.note("clean-up %s", key)
		h.do("a clean-up", func(ctx context.Context) error { _, err := h.admin.Delete(ctx, h.agent.acks+key); return err })
	}
}

// checkAck compares what the ack says with the target: a key that has not changed since the revision that
// was applied is there as the store wants it.
func (h *history) checkAck() {
	ack, _ := h.agent.ack(h.admin)
	at := ack.AppliedRevision
	if at == 0 || !ack.Applied(at) {
		return
	}
	want, has := h.agent.read(h.admin), h.agent.target.has()
	if again := h.agent.read(h.admin); h.late || ack.Store != want.identity || !maps.Equal(again.written, want.written) {
		return
	}
	h.happened["ack"]++
	for key, value := range want.good {
		if now, found := has[key]; uint64(want.written[key]) <= at && (!found || now != value) {
			h.Errorf("the ack %+v lies: %s=%d since %d, the target has %v", ack, key, value, want.written[key], has)
		}
	}
	for key, deleted := range h.gone {
		if now, found := has[key]; found && uint64(deleted) <= at && want.written[key] == 0 {
			h.Errorf("the ack %+v lies: %s was deleted at %d, the target has %d", ack, key, deleted, now)
		}
	}
}

// revoke takes the lease from the agent.
func (h *history) revoke() {
	lease := h.lease()
	if lease == 0 {
		return
	}
	h.note("revoke")
	h.revoked = lease
	h.do("revoking the lease", func(ctx context.Context) error {
		_, err := h.admin.Revoke(ctx, clientv3.LeaseID(lease))
		if err != nil && err.Error() == "etcdserver: requested lease not found" {
			return nil
		}
		return err
	})
}

// lease returns that of alive/NAME; 0 if there is none.
func (h *history) lease() (lease int64) {
	h.do("reading the lease", func(ctx context.Context) error {
		got, err := h.admin.Get(ctx, h.agent.acks+"alive/a")
		if err == nil && len(got.Kvs) > 0 {
			lease = got.Kvs[0].Lease
		}
		return err
	})
	return lease
}

// settle waits until the agent says that it has what the store has, and compares at once.
func (h *history) settle() {
	h.Helper()
	if h.mustPut {
		// A store without a key that decodes counts as empty.
		h.putLast()
	}
	want := h.agent.compare(h.admin)
	got := want.rows
	if h.late {
		clear(h.sure)
	}
	for _, key := range keysOfHistories {
		have, found := got[key]
		wanted, good := want.good[key]
		bad := slices.Contains(want.bad, key)
		before, known := h.sure[key]
		switch {
		case good && (!found || have != wanted):
			h.Errorf("row %s is %d, %t; the store has %d", key, have, found, wanted)
		case !good && !bad && found:
			h.Errorf("row %s is %d; the store does not have it", key, have)
		case bad && known && (found != (before != nil) || found && have != *before):
			h.Errorf("the key %s is bad, its row is %d, %t; before it was %v", key, have, found, before)
		case bad && found && !h.values[key][have]:
			h.Errorf("the key %s is bad, its row is %d, which it never was", key, have)
		}
		h.sure[key] = nil
		if found {
			h.sure[key] = &have
		}
	}
	if len(got) > len(keysOfHistories) {
		h.Errorf("there are rows of other keys: %v", got)
	}
	if !slices.Equal(want.told, want.bad) {
		h.Errorf("these keys do not decode: %q; the source says %q", want.bad, want.told)
	}
}

// putLast puts a value that decodes, and returns the revision of that.
func (h *history) putLast() (revision uint64) {
	h.mustPut = false
	h.note("put-last")
	return h.putGood(h.key())
}

func (h *history) putGood(key string) (revision uint64) {
	h.value++
	h.values[key][h.value] = true
	delete(h.sure, key)
	delete(h.gone, key)
	h.note("put-good %s=%d", key, h.value)
	h.do("a put", func(ctx context.Context) error {
		put, err := h.admin.Put(ctx, h.agent.prefix+key, strconv.Itoa(h.value))
		if err == nil {
			revision = uint64(put.Header.Revision)
		}
		return err
	})
	return revision
}

// told waits until the agent has said that it has applied everything, and compares with the target. The
// revision of the store may be that of an ack, which no ack has to reach: only a change of the prefix counts.
func (h *history) told() {
	h.free()
	revision := h.putLast()
	await(h.T, "the ack", func() error {
		want := h.agent.read(h.admin)
		ack, _ := h.agent.ack(h.admin)
		if ack.Store != want.identity || ack.Revision < revision || ack.Bad != len(want.bad) || len(want.bad) == 0 && !ack.Applied(revision) {
			return fmt.Errorf("the ack is %+v; the store is at %d of %s with %d bad keys", ack, revision, want.identity, len(want.bad))
		}
		rows, has := h.agent.rows(), h.agent.target.has()
		if again := h.agent.read(h.admin); !maps.Equal(again.written, want.written) {
			return errors.New("a put was committed late")
		}
		switch {
		case maps.Equal(rows, has):
		case len(want.bad) > 0 && h.mustTell:
			// While a key is bad an ack does not say what is applied, and the loop was held up.
			return fmt.Errorf("the target has %v, the table %v", has, rows)
		default:
			h.Errorf("the ack says that all was attempted, but the target has %v, the table %v", has, rows)
		}
		return nil
	})
	await(h.T, "a lease", func() error {
		if lease := h.lease(); lease == 0 || lease == h.revoked {
			return errors.New("it has none, or the one that was revoked")
		}
		return nil
	})
}
