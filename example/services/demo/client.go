// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
)

const (
	// askEvery is how often the client asks each service, and patience how long it waits for an answer.
	askEvery = 50 * time.Millisecond
	patience = 300 * time.Millisecond
	// report is how long answers are counted.
	report = time.Second
)

// clients ask all services again and again, and print who answers, whenever that has changed.
type clients struct {
	out       io.Writer
	frontends func() []*proxy.Frontend
	// sockets are those of UDP, each of which keeps its port, as a resolver does: its flow is known to conntrack.
	sockets map[kernel.Service]net.Conn
	// answers are the numbers of the present interval, and last is who answered in the last one.
	answers map[kernel.Service]map[string]int
	last    map[kernel.Service]string
}

// run runs in the namespace of the client.
func (c *clients) run(ctx context.Context) error {
	defer func() {
		for _, conn := range c.sockets {
			_ = conn.Close()
		}
	}()
	asking, reporting := time.NewTicker(askEvery), time.NewTicker(report)
	defer asking.Stop()
	defer reporting.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reporting.C:
			if err := c.report(); err != nil {
				return err
			}
		case <-asking.C:
			for _, f := range c.frontends() {
				if c.answers[f.At] == nil {
					c.answers[f.At] = map[string]int{}
				}
				c.answers[f.At][c.ask(f.At)]++
			}
		}
	}
}

// report prints the services that others answer than before.
func (c *clients) report() error {
	names := map[kernel.Service]string{}
	for _, f := range c.frontends() {
		names[f.At] = f.Name()
	}
	byText := func(a, b kernel.Service) int { return cmp.Compare(a.String(), b.String()) }
	for _, at := range slices.SortedFunc(maps.Keys(c.answers), byText) {
		who := slices.Sorted(maps.Keys(c.answers[at]))
		if now := strings.Join(who, " "); now != c.last[at] {
			c.last[at] = now
			for i, answer := range who {
				who[i] = fmt.Sprintf("%s %dx", answer, c.answers[at][answer])
			}
			_, err := fmt.Fprintf(c.out, "%s  %-16s %-20s %s\n",
				time.Now().Format(time.TimeOnly), names[at], at, strings.Join(who, ", "))
			if err != nil {
				return err
			}
		}
	}
	clear(c.answers)
	return nil
}

// ask returns the address of the machine that answers, or what went wrong.
func (c *clients) ask(at kernel.Service) string {
	answer, err := c.exchange(at)
	var timeout net.Error
	switch {
	case err == nil:
		host, _, _ := strings.Cut(answer, ":")
		return host
	case errors.Is(err, unix.ECONNREFUSED):
		return "rejected"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	}
	return err.Error()
}

func (c *clients) exchange(at kernel.Service) (string, error) {
	conn, err := c.dial(at)
	if err != nil {
		return "", err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		defer func() { _ = conn.Close() }()
		// No port is kept when this connection is gone: many follow.
		if err := tcp.SetLinger(0); err != nil {
			return "", err
		}
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if at.Protocol == kernel.TCP {
		text, err := io.ReadAll(conn)
		return string(text), err
	}
	buf := make([]byte, 100)
	if _, err := conn.Write([]byte("who")); err != nil {
		return "", err
	}
	n, err := conn.Read(buf)
	return string(buf[:n]), err
}

// dial returns a connection to a service. That of UDP is the same each time.
func (c *clients) dial(at kernel.Service) (net.Conn, error) {
	if conn := c.sockets[at]; conn != nil {
		return conn, nil
	}
	conn, err := net.DialTimeout(at.Protocol.String(), at.Address.String(), patience)
	if err == nil && at.Protocol == kernel.UDP {
		c.sockets[at] = conn
	}
	return conn, err
}
