// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Kubeproxy measures how kube-proxy's nftables proxier keeps a kernel equal to services, without a Kubernetes API: it
// is fed in this process. It takes root, and the command nft. What it measures is in a network namespace of its own.
//
//	go build && ./kubeproxy -services 1000               the first load, changes, and a restart
//	./kubeproxy -services 10000 -changes 5 -duration 0   the first load, five changes, and a restart
//	./kubeproxy -min-sync 10ms -gap 500ms                with another setting than as shipped
//
// It prints lines for benchstat. Between quiet changes is -gap without a write, which must be longer than kube-proxy's
// -min-sync: else a change waits for the end of that.
//
// Another contender is a command of its own in this module, so that it does not link Kubernetes: what a program links
// is in its memory. It cannot be in another module, which would have to repeat the replacements in go.mod. run.sh lets all
// take turns.
package main

import (
	"flag"
	"time"

	"github.com/statekeel/statekeel/benchmarks/kubeproxy/measure"
)

func main() {
	var minSync, sync time.Duration
	measure.Main(measure.Program{
		Name: "kube-proxy",
		Flags: func(flags *flag.FlagSet) {
			// The values with which kube-proxy is shipped: see pkg/proxy/apis/config/v1alpha1/defaults.go of Kubernetes.
			flags.DurationVar(&minSync, "min-sync", time.Second, "kube-proxy's nftables.minSyncPeriod")
			flags.DurationVar(&sync, "sync", 30*time.Second, "kube-proxy's nftables.syncPeriod")
		},
		New: func() measure.Contender { return &proxy{minSync: minSync, sync: sync} },
	})
}
