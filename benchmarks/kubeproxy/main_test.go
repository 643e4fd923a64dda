// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/statekeel/statekeel/benchmarks/kubeproxy/measure"
)

// asProgram makes the test's binary be the program.
const asProgram = "KUBEPROXY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestKernelHasAll measures the real proxier with a real kernel: that fails if the kernel is not as it should be. A service
// with one endpoint has no map, but a rule with its address.
func TestKernelHasAll(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("the command nft is missing")
	}
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, endpoints := range []string{"1", "3"} {
		t.Run(endpoints, func(t *testing.T) {
			program := exec.Command(self, "-services", "40", "-endpoints", endpoints, "-min-sync", "10ms", "-gap", "100ms",
				"-changes", "3", "-duration", "1s", "-rate", "30")
			program.Env = append(os.Environ(), asProgram+"=1")
			program.Stderr = os.Stderr
			out, err := program.Output()
			if err != nil {
				t.Fatal(err)
			}
			// A restart on an equal kernel writes again.
			for _, line := range []string{
				`/first/impl=kube-proxy 1 .* CPU-ns .* RSS-MiB [1-9][0-9]* writes`,
				`/change/impl=kube-proxy 1 .* p99-ns .* CPU-ns/change [1-9][0-9.]* writes/change`,
				`/changes/s=30/impl=kube-proxy 1 .* p99-ns`,
				`/restart/impl=kube-proxy 1 .* CPU-ns .* RSS-MiB [1-9][0-9]* writes`,
			} {
				want := regexp.MustCompile(`(?m)^BenchmarkServices/of=40x` + endpoints + line)
				if !want.Match(out) {
					t.Errorf("no line is like %s:\n%s", want, out)
				}
			}
		})
	}
}

func TestObjects(t *testing.T) {
	s := measure.NewWorkload(measure.Shape{Services: 2, Endpoints: 3}).Service(1)
	object, slice := service(s), endpointSlice(s)
	port := object.Spec.Ports[0]
	if object.Name != s.Name || object.Spec.ClusterIP != s.Addr.String() || port.Port != int32(s.Port) ||
		port.Protocol != core.ProtocolTCP {
		t.Errorf("%+v is the service %+v", s, object)
	}
	if slice.Namespace != object.Namespace || slice.Labels["kubernetes.io/service-name"] != object.Name ||
		*slice.Ports[0].Protocol != core.ProtocolTCP || *slice.Ports[0].Name != port.Name {
		t.Errorf("%+v is the slice %+v", s, slice)
	}
	for i, e := range slice.Endpoints {
		address := netip.AddrPortFrom(netip.MustParseAddr(e.Addresses[0]), uint16(*slice.Ports[0].Port))
		if address != s.Endpoints[i] || !*e.Conditions.Ready {
			t.Errorf("endpoint %d of %v is %+v", i, s.Endpoints, e)
		}
	}
	if len(slice.Endpoints) != 3 {
		t.Errorf("there are %d endpoints", len(slice.Endpoints))
	}
}

// TestServiceThatRejectsIsNotThere reads an element that makes connections be refused: all services of the workload have
// endpoints that are ready.
func TestServiceThatRejectsIsNotThere(t *testing.T) {
	layout := new(proxy).Layout()
	key := []byte{10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0}
	if a, ok := layout.Service(measure.Element{Set: []byte("service-ips"), Key: key}); !ok || a.String() != "10.96.0.1:80" {
		t.Errorf("the service is %v, %v", a, ok)
	}
	if a, ok := layout.Service(measure.Element{Set: []byte("no-endpoint-services"), Key: key}); ok {
		t.Errorf("a service that rejects is taken for %v", a)
	}
}

// TestEndpointOfRule has the values of a rule that translates to one endpoint, and of others.
func TestEndpointOfRule(t *testing.T) {
	rule := new(proxy).Layout().Rule
	if a, ok := rule([][]byte{{10, 128, 0, 1}, {0x1f, 0x90}}); !ok || a.String() != "10.128.0.1:8080" {
		t.Errorf("the endpoint is %v, %v", a, ok)
	}
	for _, values := range [][][]byte{nil, {{10, 128, 0, 1}}, {{0x1f, 0x90}, {10, 128, 0, 1}}} {
		if a, ok := rule(values); ok {
			t.Errorf("the values %v are the endpoint %v", values, a)
		}
	}
}
