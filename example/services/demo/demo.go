// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/services/input"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
)

// Demo is the client, and who changes the services.
type Demo struct {
	Network *Network
	Out     io.Writer
	// File is the file that the proxy follows. It is overwritten every so often; never if Every is zero.
	File  string
	Every time.Duration
}

// Cell adds the demo to a proxy.
func (d Demo) Cell() cell.Cell {
	return cell.Module("demo", "A client and endpoints that come and go",
		cell.ProvidePrivate(job.Registry.NewGroup),
		cell.Invoke(func(jobs job.Group, db *statedb.DB, frontends statedb.RWTable[*proxy.Frontend]) {
			c := &clients{
				out: d.Out, frontends: func() []*proxy.Frontend { return statedb.Collect(frontends.All(db.ReadTxn())) },
				sockets: map[kernel.Service]net.Conn{},
				answers: map[kernel.Service]map[string]int{}, last: map[kernel.Service]string{},
			}
			jobs.Add(job.OneShot("client", func(ctx context.Context, _ cell.Health) error {
				return d.Network.client.do(func() error { return c.run(ctx) })
			}))
			if d.Every > 0 {
				jobs.Add(job.OneShot("chapters", func(ctx context.Context, _ cell.Health) error { return d.play(ctx, chapters) }))
			}
		}),
	)
}

// chapter is something that happens to services.
type chapter struct {
	title  string
	change func([]*input.Entry) []*input.Entry
}

const (
	web = "default/web:http"
	dns = "default/dns:dns"
	sql = "default/db:sql"
)

var chapters = []chapter{
	{"10.2.0.12 is not ready any more: new clients of web get the other two", ready(web, 12, false)},
	{"10.2.0.12 is ready again", ready(web, 12, true)},
	{"10.2.0.15 replaces 10.2.0.14: the client of dns, whose port stays the same, follows", handOver},
	{"10.2.0.16, the only endpoint of db, is not ready any more: clients are rejected at once", ready(sql, 16, false)},
	{"it is ready again", ready(sql, 16, true)},
	{"a younger default/shop:http claims the address of web, which keeps it: services why default/shop:http", rival},
}

// ready makes an endpoint of a service ready, or not.
func ready(service string, machine byte, is bool) func([]*input.Entry) []*input.Entry {
	return func(services []*input.Entry) (changed []*input.Entry) {
		for _, s := range services {
			if s.Name == service {
				now := *s
				now.Endpoints, now.Unready = nil, nil
				for i, e := range slices.Concat(s.Endpoints, s.Unready) {
					switch was := i < len(s.Endpoints); {
					case e.Addr().As4()[3] == machine && is, e.Addr().As4()[3] != machine && was:
						now.Endpoints = append(now.Endpoints, e)
					default:
						now.Unready = append(now.Unready, e)
					}
				}
				s = &now
			}
			changed = append(changed, s)
		}
		return changed
	}
}

// handOver replaces an endpoint of dns by another one.
func handOver(services []*input.Entry) []*input.Entry {
	return ready(dns, 14, false)(ready(dns, 15, true)(services))
}

// rival adds a younger service at the address of web.
func rival(services []*input.Entry) []*input.Entry {
	for _, s := range services {
		if s.Name == web {
			return append(slices.Clone(services), &input.Entry{
				Name: "default/shop:http", At: s.At, Created: s.Created.Add(time.Hour), Endpoints: s.Endpoints[:1],
			})
		}
	}
	return services
}

// play plays chapters until the context ends, each after what came before; after the last one all is as it was.
func (d Demo) play(ctx context.Context, chapters []chapter) error {
	first, err := input.ReadFile(d.File)
	if err != nil {
		return err
	}
	services, next := first, 0
	ticker := time.NewTicker(d.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		title := "all is as at the beginning"
		if next < len(chapters) {
			title, services = chapters[next].title, chapters[next].change(services)
			next++
		} else {
			services, next = first, 0
		}
		if _, err := fmt.Fprintf(d.Out, "\n%s  %s\n", time.Now().Format(time.TimeOnly), title); err != nil {
			return err
		}
		if err := replace(d.File, services); err != nil {
			return err
		}
	}
}

// replace replaces a file, so that no reader gets half of it.
func replace(path string, services []*input.Entry) error {
	text, err := input.Format(services)
	if err != nil {
		return err
	}
	temporary := filepath.Join(filepath.Dir(path), ".new")
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
