// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Command server is a Kubernetes API server, the real program, with its etcd in one process, for tests that kill it. It
// ends with its standard input, so that none is left when a test is killed.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	dir := flag.String("dir", "", "the folder of the store")
	client := flag.Int("etcd", 0, "the port of etcd for clients")
	peer := flag.Int("peer", 0, "the port of etcd for peers")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "An API server. What comes after -- is for kube-apiserver.")
		flag.PrintDefaults()
	}
	flag.Parse()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	at := startEtcd(filepath.Join(*dir, "etcd"), *client, *peer)
	api := app.NewAPIServerCommand()
	api.SetArgs(append([]string{"--etcd-servers=" + at}, flag.Args()...))
	log.Fatal(api.Execute())
}

// startEtcd returns the address of an etcd that serves.
func startEtcd(dir string, client, peer int) string {
	urls := func(port int) []url.URL { return []url.URL{{Scheme: "http", Host: fmt.Sprint("127.0.0.1:", port)}} }
	cfg := embed.NewConfig()
	// The tests kill the process and not the machine.
	cfg.Dir, cfg.LogLevel, cfg.UnsafeNoFsync = dir, "fatal", true
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(client), urls(client)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(peer), urls(peer)
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// One member waits for nobody's vote.
	cfg.TickMs, cfg.ElectionMs = 10, 100
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		log.Fatal(err)
	}
	<-etcd.Server.ReadyNotify()
	return cfg.ListenClientUrls[0].String()
}
