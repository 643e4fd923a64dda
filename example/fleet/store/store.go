// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package store runs an etcd of one member in this process.
package store

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// keepHistory is for how long etcd keeps old revisions. Each ack of an agent is a revision: without
// compaction the acks of a fleet fill etcd's default quota of 2 GiB within hours.
const keepHistory = "1m"

// startTimeout bounds the start of etcd.
const startTimeout = time.Minute

// Serve runs an etcd with its data in a directory until the context ends. It serves clients at a URL,
// and calls ready when it does. For agents in network namespaces of their own that must be a Unix
// socket, unix:///path: they do not reach the TCP ports of the host.
func Serve(ctx context.Context, dir, listen string, ready func()) error {
	client, err := url.Parse(listen)
	if err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ListenClientUrls = []url.URL{*client}
	// One member has no peers to listen for. What it advertises stays at the default, and is not used.
	cfg.ListenPeerUrls = nil
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, keepHistory
	cfg.LogLevel = "error"
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd in %q: %w", dir, err)
	}
	defer server.Close()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-server.Server.ReadyNotify():
		ready()
	case err := <-server.Err():
		return err
	case <-starting.Done():
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("etcd in %q is not ready after %s", dir, startTimeout)
	}
	select {
	case err := <-server.Err():
		return err
	case <-ctx.Done():
		return nil
	}
}
