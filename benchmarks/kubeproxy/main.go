// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Kubeproxy measures how kube-proxy's nftables proxier keeps a kernel equal to services, without a Kubernetes API: it
// is fed in this process. It takes root, and the command nft. What it measures is in a network namespace of its own.
//
//	go build && ./kubeproxy -services 1000                       everything, as text
//	./kubeproxy -services 10000 -phase quiet -changes 5 -json    the first load and five changes, for programs
//	./kubeproxy -min-sync 10ms -gap 500ms                        with another setting than as shipped
//
// The first load is always measured; the others are quiet, churn and restart. Between quiet changes is -gap without a
// write, which must be longer than kube-proxy's -min-sync: else a change waits for the end of that.
//
// Another contender is a command of its own in this module, so that it does not link Kubernetes: what a program links
// is in its memory. It cannot be in another module, which would have to repeat the replacements in go.mod.
package main

import (
	"flag"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
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
		New:      func() (measure.Contender, error) { return &proxy{minSync: minSync, sync: sync}, nil },
		Versions: versions,
	})
}

// versions returns those of Kubernetes and of nft, which does most of the work.
func versions() (map[string]string, error) {
	const kubernetes = "k8s.io/kubernetes"
	v := make(map[string]string)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == kubernetes {
				v[kubernetes] = module.Version
			}
		}
	}
	out, err := exec.Command("nft", "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask nft for its version: %w", err)
	}
	// As in: nftables v1.0.6 (Lester Gooch #5)
	_, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	v["nft"], _, _ = strings.Cut(version, " ")
	return v, nil
}
