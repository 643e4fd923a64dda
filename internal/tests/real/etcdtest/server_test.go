// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/statekeel/statekeel/internal/tests/freeport"
)

// serverPath is the program of the server, a tool of this module. It is built without -race, which would make it slow.
var serverPath string

func TestMain(m *testing.M) {
	path, err := exec.Command("go", "tool", "-n", "server").Output()
	if err != nil {
		log.Fatalf("building the server: %s", err)
	}
	serverPath = strings.TrimSpace(string(path))
	goleak.VerifyTestMain(m)
}

// server is one member of an etcd. It keeps its address for as long as the test runs.
type server struct {
	t             *testing.T
	name, dir     string
	client, peer  string // addresses
	cluster       string
	process       *exec.Cmd
	stdin         io.Closer
	output        *bufio.Reader
	killed, wiped int
}

// newServers starts an etcd with some members.
func newServers(t *testing.T, members int) []*server {
	all := make([]*server, members)
	var cluster []string
	for i := range all {
		s := &server{t: t, name: fmt.Sprint("m", i), dir: filepath.Join(t.TempDir(), "data"), client: freeAddress(t), peer: freeAddress(t)}
		cluster = append(cluster, s.name+"=http://"+s.peer)
		all[i] = s
	}
	for _, s := range all {
		s.cluster = strings.Join(cluster, ",")
		s.begin()
		t.Cleanup(s.kill)
	}
	for _, s := range all {
		s.ready()
	}
	return all
}

// addressesOf returns where clients reach servers.
func addressesOf(servers []*server) (addresses []string) {
	for _, s := range servers {
		addresses = append(addresses, s.client)
	}
	return addresses
}

// freeAddress returns an address that is free until the test gives it to a server.
func freeAddress(t *testing.T) string {
	port, err := freeport.Get()
	require.NoError(t, err)
	return fmt.Sprint("127.0.0.1:", port)
}

// start starts the server, and returns when it serves.
func (s *server) start() {
	s.begin()
	s.ready()
}

func (s *server) begin() {
	s.t.Helper()
	s.process = exec.Command(serverPath, "-name", s.name, "-dir", s.dir, "-client", "http://"+s.client, "-peer", "http://"+s.peer, "-cluster", s.cluster)
	s.process.Stderr = os.Stderr
	stdin, err := s.process.StdinPipe()
	require.NoError(s.t, err)
	s.stdin = stdin
	stdout, err := s.process.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.process.Start())
	s.output = bufio.NewReader(stdout)
}

func (s *server) ready() {
	s.t.Helper()
	line, err := s.output.ReadString('\n')
	require.NoError(s.t, err)
	require.Equal(s.t, "ready\n", line)
}

// kill ends the process at once.
func (s *server) kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	s.stdin.Close()
	s.process = nil
	s.killed++
}

// wipe replaces the server by an empty one under the same address.
func (s *server) wipe() {
	s.erase()
	s.wiped++
	s.start()
}

// erase stops the server, and removes its data.
func (s *server) erase() {
	s.kill()
	require.NoError(s.t, os.RemoveAll(s.dir))
}

// backUp stops the server, and returns a copy of its data.
func (s *server) backUp() (backup string) {
	s.kill()
	backup = filepath.Join(s.t.TempDir(), "backup")
	require.NoError(s.t, os.CopyFS(backup, os.DirFS(s.dir)))
	return backup
}

// startAfterElections starts a server that is stopped, some raft terms later: each election is a new one.
func (s *server) startAfterElections() {
	for range 3 {
		s.start()
		s.kill()
	}
	s.start()
}

// restore stops the server, and gives it the data of a backup.
func (s *server) restore(backup string) {
	s.erase()
	require.NoError(s.t, os.Rename(backup, s.dir))
}

// connect returns a client of some addresses.
func connect(t *testing.T, addresses ...string) *clientv3.Client {
	t.Helper()
	return connectThrough(t, &between{}, "", addresses...)
}

// between calls a function, if it has one, in place of each call of a client. The function may make the call.
type between struct {
	atomic.Pointer[func(req any, call func() error, answer any) error]
}

func (b *between) call(ctx context.Context, method string, req, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	do := func() error { return call(ctx, method, req, answer, conn, opts...) }
	if f := b.Load(); f != nil {
		return (*f)(req, do, answer)
	}
	return do()
}

// connectThrough returns a client whose calls go through b. It is that of a user, whose password is the name, if there
// is one.
func connectThrough(t *testing.T, b *between, user string, addresses ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: addresses, Logger: zap.NewNop(), DialTimeout: 10 * time.Second, Username: user, Password: user,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second,
		}), grpc.WithChainUnaryInterceptor(b.call)},
	})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}
