// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Command server is a Kubernetes API server, the real program, with its etcd in one process, for tests that kill it. It may
// run the EndpointSlice controller, too, that of kube-controller-manager. It ends with its standard input, so that none is
// left when a test is killed. The line "compact" has etcd forget what its keys were, and is answered by "compacted".
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
)

func main() {
	dir := flag.String("dir", "", "the folder of the store")
	client := flag.Int("etcd", 0, "the port of etcd for clients")
	peer := flag.Int("peer", 0, "the port of etcd for peers")
	port := flag.Int("port", 0, "the port of the API server")
	slices := flag.Int("slices", 0, "run the controller, which puts so many endpoints into a slice; 0 runs none")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "An API server. What comes after -- is for kube-apiserver.")
		flag.PrintDefaults()
	}
	flag.Parse()
	etcd := startEtcd(filepath.Join(*dir, "etcd"), *client, *peer)
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if lines.Text() == "compact" {
				compact(etcd.Server)
			}
		}
		os.Exit(0)
	}()
	if *slices > 0 {
		go control(*port, int32(*slices))
	}
	api := app.NewAPIServerCommand()
	api.SetArgs(append([]string{
		"--etcd-servers=" + etcd.Config().ListenClientUrls[0].String(), fmt.Sprint("--secure-port=", *port),
	}, flag.Args()...))
	log.Fatal(api.Execute())
}

func compact(server *etcdserver.EtcdServer) {
	_, err := server.Compact(context.Background(), &etcdserverpb.CompactionRequest{Revision: server.KV().Rev(), Physical: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("compacted")
}

// control runs the controller as soon as the API server answers.
func control(port int, perSlice int32) {
	client := kubernetes.NewForConfigOrDie(&rest.Config{
		Host: fmt.Sprint("https://127.0.0.1:", port), BearerToken: "admin", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	})
	ctx := context.Background()
	for client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	all := informers.NewSharedInformerFactory(client, 0)
	controller := endpointslice.NewController(ctx, all.Core().V1().Pods(), all.Core().V1().Services(), all.Core().V1().Nodes(),
		all.Discovery().V1().EndpointSlices(), perSlice, client, 0)
	all.Start(ctx.Done())
	controller.Run(ctx, 2)
}

// startEtcd returns an etcd that serves.
func startEtcd(dir string, client, peer int) *embed.Etcd {
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
	return etcd
}
