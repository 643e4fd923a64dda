// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Command server is one member of an etcd, for tests that kill it and for the benchmarks. It prints a line
// when it serves. It ends with its standard input, so that none is left when a test is killed.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	cfg := embed.NewConfig()
	var client, peer string
	flag.StringVar(&cfg.Name, "name", "one", "the name of the member")
	flag.StringVar(&cfg.Dir, "dir", "", "the data directory")
	flag.StringVar(&client, "client", "", "the URL for clients")
	flag.StringVar(&peer, "peer", "", "the URL for other members")
	flag.StringVar(&cfg.InitialCluster, "cluster", "", "all members, also a single one, as name=URL, separated by commas")
	// The tests kill the process and not the machine.
	flag.BoolVar(&cfg.UnsafeNoFsync, "no-fsync", true, "do not wait for the disk")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "A member of an etcd. It ends when its standard input does.")
		flag.PrintDefaults()
	}
	flag.Parse()
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(client), urls(client)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(peer), urls(peer)
	cfg.LogLevel = "fatal"
	// Tests compact and write a lot: a member that lags behind must not be slow to elect.
	cfg.TickMs, cfg.ElectionMs = 50, 500

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	select {
	case <-etcd.Server.ReadyNotify():
		fmt.Println("ready")
	case err := <-etcd.Err():
		log.Fatal(err)
	}
	log.Fatal(<-etcd.Err())
}

func urls(text string) []url.URL {
	u, err := url.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	return []url.URL{*u}
}
