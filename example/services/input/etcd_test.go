// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/statekeel/statekeel/example/services/proxy"
)

// etcdServer is an etcd of one member, which can be killed and started again.
type etcdServer struct {
	*testing.T
	path, dir, client, peer string
	process                 *exec.Cmd
	stdin                   io.Closer
}

// newEtcdServer starts an etcd. It is a tool of another module, so that this one does not require etcd's server.
func newEtcdServer(t *testing.T) *etcdServer {
	cmd := exec.Command("go", "tool", "-n", "server")
	cmd.Dir = "../../../internal/tests/real"
	cmd.Stderr = os.Stderr
	path, err := cmd.Output()
	require.NoError(t, err, "build etcd's server")
	// A client must not get the port as its own meanwhile, as it gets those from 32768 on.
	free := func() string {
		for {
			if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 10_000+rand.N(20_000))); err == nil {
				defer func() { require.NoError(t, l.Close()) }()
				return "http://" + l.Addr().String()
			}
		}
	}
	s := &etcdServer{
		T: t, path: strings.TrimSpace(string(path)), dir: filepath.Join(t.TempDir(), "data"), client: free(), peer: free(),
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start starts the server, and returns when it serves.
func (s *etcdServer) start() {
	s.process = exec.Command(s.path, "-name", "one", "-dir", s.dir, "-client", s.client, "-peer", s.peer, "-cluster", "one="+s.peer)
	s.process.Stderr = os.Stderr
	var err error
	s.stdin, err = s.process.StdinPipe() // the server ends with it
	require.NoError(s, err)
	stdout, err := s.process.StdoutPipe()
	require.NoError(s, err)
	require.NoError(s, s.process.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(s, err)
	require.Equal(s, "ready\n", line)
}

func (s *etcdServer) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	_ = s.stdin.Close()
}

func TestEtcdIsFollowed(t *testing.T) {
	server := newEtcdServer(t)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{server.client}, Logger: zap.NewNop(), DialTimeout: time.Minute,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	put := func(key, value string) {
		_, err := client.Put(t.Context(), key, value)
		require.NoError(t, err)
	}

	put("other/default/db:sql", "{address: tcp/10.96.0.2:5432}")
	put(EtcdPrefix+"default/web:http", "{address: tcp/10.96.0.1:80, endpoints: [10.2.0.11:8080]}")
	in, err := OpenEtcd(server.client)
	require.NoError(t, err)
	p := start(t, in)
	p.until("the first list is there", func() bool { return p.names() == "default/web:http" })
	put(EtcdPrefix+"default/dns:dns", `{"address": "udp/10.96.0.53:53"}`)
	p.until("a service is added", func() bool { return p.names() == "default/dns:dns default/web:http" })
	web := func() *proxy.Service {
		s, _, _ := p.services.Get(p.db.ReadTxn(), proxy.ByName("default/web:http"))
		return s
	}
	first := web()
	assert.Equal(t, "10.2.0.11:8080", first.Endpoints[0].Address.String())

	put(EtcdPrefix+"default/web:http", "{address: tcp/10.96.0.1:80, endpoints: [10.2.0.11]}")
	p.until("the problem is reported", func() bool { return len(p.health.Degraded()) == 1 })
	assert.Contains(t, p.health.Degraded()[0].String(), `"services/default/web:http": value:1:41: "10.2.0.11": not an ip:port`)
	assert.Same(t, first, web(), "the last good value stays in force")
	_, err = client.Delete(t.Context(), EtcdPrefix+"default/dns:dns")
	require.NoError(t, err)
	p.until("a service is removed", func() bool { return p.names() == "default/web:http" })

	server.kill()
	p.until("the end of the store is noticed", func() bool { return strings.Contains(p.log.String(), "source disconnected") })
	assert.Same(t, first, web(), "services stay while the store is away")
	server.start()
	put(EtcdPrefix+"default/web:http", "{address: tcp/10.96.0.1:80, endpoints: [10.2.0.12:8080]}")
	p.until("the store is followed again", func() bool {
		return web().Endpoints[0].Address.String() == "10.2.0.12:8080" && len(p.health.Degraded()) == 0
	})
}
