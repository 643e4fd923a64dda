// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package kubernetestest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/statekeel/statekeel/internal/tests/kubernetes/apiserver"
)

// proxy is before an API server. What it does to requests, and to connections, is what the test says.
type proxy struct {
	*httptest.Server

	mu sync.Mutex
	// answer answers a request in place of the server, unless it returns nil; may be nil.
	answer func(*http.Request) *apierrors.StatusError
	// slow is for how long each part of an answer is held back, and hides reports whether answers are held back for good.
	slow  time.Duration
	hides bool
	// frozen is not nil while nothing is passed on, in no direction; it is closed when that ends.
	frozen chan struct{}
	// running ends the answers that are being passed on.
	running map[int]context.CancelFunc
	// asked are the requests, as kindOf names them, and types the content types of the answers.
	asked map[string]int
	types map[string]bool
	next  int
}

func newProxy(t testing.TB, s *apiserver.Server) *proxy {
	p := &proxy{running: map[int]context.CancelFunc{}, asked: map[string]int{}, types: map[string]bool{}}
	upstream := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	target := &url.URL{Scheme: "https", Host: fmt.Sprint("127.0.0.1:", s.Port)}
	passes := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: upstream, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.types[r.Header.Get("Content-Type")] = true
			r.Body = slowBody{r.Body, p, r.Request.Context()}
			return nil
		},
	}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, passes) }))
	p.EnableHTTP2 = true
	p.Config.ErrorLog = passes.ErrorLog
	p.Listener = listener{p.Listener, p}
	p.StartTLS()
	t.Cleanup(func() {
		p.freeze(false)
		p.cut()
		p.CloseClientConnections()
		p.Close()
		upstream.CloseIdleConnections()
	})
	return p
}

// kindOf returns what a request is: "cluster", "version", "list", "continue", "stream" or "watch".
func kindOf(r *http.Request) string {
	asks := r.URL.Query()
	switch {
	case strings.HasSuffix(r.URL.Path, "/kube-system"):
		return "cluster"
	case asks.Get("sendInitialEvents") != "":
		return "stream"
	case asks.Get("watch") != "":
		return "watch"
	case asks.Get("continue") != "":
		return "continue"
	case asks.Get("limit") == "1":
		return "version"
	}
	return "list"
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, passes http.Handler) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	p.mu.Lock()
	id, answer := p.next, p.answer
	p.next++
	p.running[id] = cancel
	p.asked[kindOf(r)]++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, id)
	}()
	if answer != nil {
		if err := answer(r); err != nil {
			w.Header().Set("Content-Type", "application/json")
			if err.ErrStatus.Details != nil && err.ErrStatus.Details.RetryAfterSeconds > 0 {
				w.Header().Set("Retry-After", fmt.Sprint(err.ErrStatus.Details.RetryAfterSeconds))
			}
			w.WriteHeader(int(err.ErrStatus.Code))
			status := err.Status()
			status.Kind, status.APIVersion = "Status", "v1"
			_ = json.NewEncoder(w).Encode(status)
			return
		}
	}
	passes.ServeHTTP(w, r.WithContext(ctx))
}

// config returns the configuration of a user who asks through the proxy.
func (p *proxy) config(user string) *rest.Config {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	return &rest.Config{Host: p.URL, BearerToken: user, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
}

func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *proxy) setAnswer(answer func(*http.Request) *apierrors.StatusError) {
	p.set(func() { p.answer = answer })
}

// times returns how often something was asked.
func (p *proxy) times(what string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[what]
}

// cut ends all answers that are being passed on.
func (p *proxy) cut() {
	p.set(func() {
		for _, cancel := range p.running {
			cancel()
		}
	})
}

// freeze lets nothing pass, or ends that.
func (p *proxy) freeze(frozen bool) {
	p.set(func() {
		if p.frozen != nil {
			close(p.frozen)
			p.frozen = nil
		}
		if frozen {
			p.frozen = make(chan struct{})
		}
	})
}

func (p *proxy) wait() {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// slowBody is an answer that is passed on slowly.
type slowBody struct {
	io.ReadCloser
	proxy *proxy
	ctx   context.Context
}

func (b slowBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.proxy.mu.Lock()
	slow, hides := b.proxy.slow, b.proxy.hides
	b.proxy.mu.Unlock()
	if hides {
		slow = time.Hour
	}
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-b.ctx.Done():
		}
	}
	return n, err
}

// listener and conn are those of a proxy that may be frozen.
type listener struct {
	net.Listener
	proxy *proxy
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return conn{c, l.proxy}, err
}

type conn struct {
	net.Conn
	proxy *proxy
}

func (c conn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.proxy.wait()
	return n, err
}

func (c conn) Write(what []byte) (int, error) {
	c.proxy.wait()
	return c.Conn.Write(what)
}
