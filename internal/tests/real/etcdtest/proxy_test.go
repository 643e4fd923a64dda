// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy passes TCP connections on to a server, and can break them.
type proxy struct {
	address string
	target  string
	listen  net.Listener
	all     sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	refuse bool
	// frozen is not nil while nothing is passed on; it is closed when that ends.
	frozen chan struct{}
	// slow is for how long it waits before it passes on up to 32 KiB.
	slow time.Duration
}

func newProxy(t *testing.T, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: l.Addr().String(), target: target, listen: l, open: map[net.Conn]struct{}{}}
	p.all.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.thaw()
		p.setRefuse(true)
		p.all.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		in, err := p.listen.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		if p.refuse {
			in.Close()
			out.Close()
		} else {
			p.open[in], p.open[out] = struct{}{}, struct{}{}
			p.all.Go(func() { p.pass(in, out) })
			p.all.Go(func() { p.pass(out, in) })
		}
		p.mu.Unlock()
	}
}

func (p *proxy) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		frozen, slow := p.frozen, p.slow
		p.mu.Unlock()
		time.Sleep(slow)
		if frozen != nil {
			<-frozen
		}
		if n > 0 {
			if _, werr := to.Write(buffer[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			break
		}
	}
	from.Close()
	to.Close()
	p.mu.Lock()
	delete(p.open, from)
	delete(p.open, to)
	p.mu.Unlock()
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}

// setRefuse begins or ends to break all connections, also new ones.
func (p *proxy) setRefuse(refuse bool) {
	p.mu.Lock()
	p.refuse = refuse
	p.mu.Unlock()
	if refuse {
		p.cut()
	}
}

// setSlow begins to delay what is passed on, or ends that.
func (p *proxy) setSlow(slow time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = slow
}

// freeze keeps connections, and passes nothing on, until thaw.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}
