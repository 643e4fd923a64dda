// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// newGuarded starts an etcd in which the agent has the permissions that the package documents, and no more. It counts
// how often the agent logs in.
func newGuarded(t *testing.T) (w *world, logins *atomic.Int64) {
	t.Helper()
	w = &world{server: newServers(t, 1)[0], calls: &between{}}
	root := connect(t, w.server.client)
	do := func(_ any, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	do(root.Put(t.Context(), "identity", "made by an operator"))
	do(root.Put(t.Context(), "desired/a", "1"))
	do(root.RoleAdd(t.Context(), "agent"))
	for prefix, kind := range map[string]authpb.Permission_Type{
		"desired/": authpb.READ, "identity": authpb.READ, "acks/a": authpb.READWRITE, "alive/a": authpb.READWRITE,
	} {
		do(root.RoleGrantPermission(t.Context(), "agent", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(kind)))
	}
	for _, user := range []string{"agent", "root"} {
		do(root.UserAdd(t.Context(), user, user))
		do(root.UserGrantRole(t.Context(), user, user))
	}
	do(root.AuthEnable(t.Context()))
	logins = &atomic.Int64{}
	count := func(req any, call func() error, _ any) error {
		if _, is := req.(*etcdserverpb.AuthenticateRequest); is {
			logins.Add(1)
		}
		return call()
	}
	w.calls.Store(&count)
	w.admin = connectThrough(t, &between{}, "root", w.server.client)
	// On a busy machine a log-in takes longer than the usual time between two checks.
	slow := func(c *etcd.Config[*row]) { c.Check = time.Second }
	w.agent = newAgent(t, plan{client: connectThrough(t, w.calls, "agent", w.server.client), config: slow})
	w.equal()
	return w, logins
}

func TestAgentNeedsNoMorePermissionsThanDocumented(t *testing.T) {
	t.Parallel()
	w, logins := newGuarded(t)
	at := w.put("b", "2")
	w.equal()
	assert.Equal(t, "made by an operator", w.applied(at).Store)
	w.awaitAlive()
	assert.Positive(t, logins.Load())
}

func TestAgentWithAPasswordLogsInOnceAndSurvivesTheLossOfItsToken(t *testing.T) {
	long.Only(t)
	t.Parallel()
	w, logins := newGuarded(t)
	w.applied(w.put("b", "2"))
	// A log-in costs etcd tens of milliseconds of CPU. A connection that a busy machine loses is another log-in, so the
	// best of three times counts.
	fewest := int64(math.MaxInt64)
	for try := 0; try < 3 && fewest > 1; try++ {
		before := logins.Load()
		time.Sleep(5 * time.Second)
		fewest = min(fewest, logins.Load()-before)
	}
	assert.LessOrEqual(t, fewest, int64(1), "log-ins in 5 s, of an agent that is idle")
	for i := range 3 {
		w.server.kill()
		time.Sleep(time.Second)
		w.server.start()
		at := w.put("b", fmt.Sprint(i))
		w.equal()
		w.applied(at)
	}
	// The permission is lost, and comes back.
	end := clientv3.GetPrefixRangeEnd("desired/")
	_, err := w.admin.RoleRevokePermission(t.Context(), "agent", "desired/", end)
	require.NoError(t, err)
	w.server.kill()
	w.server.start()
	w.put("c", "9")
	await(t, "the permission to be missed", func() error {
		if state := w.source.State(); state.Connected || !strings.Contains(fmt.Sprint(state.Err), "permission denied") {
			return fmt.Errorf("the state is %+v", state)
		}
		return nil
	})
	time.Sleep(2 * time.Second)
	assert.Len(t, w.rows(), 2)
	assert.False(t, w.source.State().Connected)
	_, err = w.admin.RoleGrantPermission(t.Context(), "agent", "desired/", end, clientv3.PermissionType(authpb.READ))
	require.NoError(t, err)
	at := w.put("d", "9")
	w.equal()
	w.applied(at)
}

// newCluster starts three members, of which an agent knows all, and the test the last two. The first can be stopped, as
// if it hung.
func newCluster(t *testing.T, p plan) (w *world, hang func(hangs bool)) {
	servers := newServers(t, 3)
	addresses := addressesOf(servers)
	w = &world{admin: connect(t, addresses[1:]...)}
	p.client = connect(t, addresses...)
	w.agent = newAgent(t, p)
	w.put("a", "1")
	w.settle(w.admin)
	return w, func(hangs bool) {
		signal := syscall.SIGCONT
		if hangs {
			signal = syscall.SIGSTOP
		}
		require.NoError(t, servers[0].process.Process.Signal(signal))
	}
}

// The client asks the members in turn: a third of the comparisons go to the one that hangs.
func TestMemberThatHangsEndsNoWatchOnAnother(t *testing.T) {
	long.Only(t)
	t.Parallel()
	w, hang := newCluster(t, plan{tell: forHours, config: func(c *etcd.Config[*row]) { c.Check = 500 * time.Millisecond }})
	hang(true)
	defer hang(false)
	w.put("a", "2")
	w.settle(w.admin)
	// The first watch may be on the member that hangs. On a busy machine others are late, too, so the best of several times
	// counts.
	fewest := math.MaxInt
	for try := 0; try < 5 && fewest > 2; try++ {
		since, connections := w.source.State().Since, 0
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			if now := w.source.State().Since; !now.Equal(since) {
				since, connections = now, connections+1
			}
		}
		fewest = min(fewest, connections)
	}
	assert.LessOrEqual(t, fewest, 2, "the source connected or lost its connection so often in 10 checks")
}

func TestMemberThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	w, hang := newCluster(t, plan{config: func(c *etcd.Config[*row]) { c.Check = 2 * time.Second }})
	hang(true)
	defer hang(false)
	for i := range 10 {
		w.put("a", fmt.Sprint(i))
		w.settle(w.admin)
	}
}
