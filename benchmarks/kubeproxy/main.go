// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Kubeproxy measures how kube-proxy's nftables proxier keeps a kernel equal to services, without a Kubernetes API: it
// is fed in this process. It takes root, and the command nft. What it measures is in a network namespace of its own.
//
//	go build && ./kubeproxy -services 1000 -min-sync 1s          everything, as text
//	./kubeproxy -services 10000 -phase quiet -changes 5 -json    the first load and five changes, for programs
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
		New: func() (measure.Contender, error) { return &proxy{minSync: minSync, sync: sync}, nil },
	})
}
