// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
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

// TestKernelHasAll measures the real proxier with a real kernel: that fails if the kernel is not as it should be.
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
	program := exec.Command(self, "-services", "40", "-endpoints", "3", "-udp-every", "5", "-min-sync", "10ms",
		"-gap", "100ms", "-changes", "3", "-duration", "1s", "-rate", "30", "-json")
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stderr = os.Stderr
	out, err := program.Output()
	if err != nil {
		t.Fatal(err)
	}
	var f measure.Figures
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if f.First == nil || f.Quiet == nil || f.Churn == nil || f.Restart == nil || f.Memory == nil ||
		f.RestartMemory == nil {
		t.Fatalf("phases are missing: %s", out)
	}
	if f.Versions["k8s.io/kubernetes"] != "v1.36.0" || f.Versions["nft"] == "" || f.Settings["min-sync"] != "10ms" {
		t.Errorf("versions %v, settings %v", f.Versions, f.Settings)
	}
	// A service has a rule with an anonymous map, which a change of one endpoint writes again.
	if w := f.First.Writes; w.Commits != 1 || w.NewRules < 40 || w.NewElements < 40*3+2*40 {
		t.Errorf("the first load wrote %v", w)
	}
	want := measure.Writes{Commits: 3, NewRules: 3, DeletedRules: 3, NewSets: 3, DeletedSets: 3, NewElements: 9,
		NewChains: 3}
	if f.Quiet.Count != 3 || f.Quiet.Writes != want {
		t.Errorf("%d quiet changes wrote %v", f.Quiet.Count, f.Quiet.Writes)
	}
	if f.Churn.Count != 30 || f.Churn.After != f.First.After || f.Churn.CPUEach <= 0 {
		t.Errorf("many changes: %+v", f.Churn)
	}
	// A restart on an equal kernel writes all rules and their maps again, but no element of the maps with names.
	if w := f.Restart.Writes; w.NewRules < 40 || w.DeletedRules < 40 || w.NewElements != 40*3 ||
		f.Restart.After != f.First.After {
		t.Errorf("the restart wrote %v, and the kernel has %+v", w, f.Restart.After)
	}
	// Whether a process that ends soon was seen is left to chance.
	if f.Memory.Loaded < f.Memory.Before || f.Memory.Together <= 0 {
		t.Errorf("memory: %+v", f.Memory)
	}
}

func TestObjects(t *testing.T) {
	s := measure.NewWorkload(measure.Shape{Services: 2, Endpoints: 3, UDPEvery: 2}).Service(1)
	object, slice := service(s), endpointSlice(s)
	port := object.Spec.Ports[0]
	if object.Name != s.Name || object.Spec.ClusterIP != s.Addr.String() || port.Port != int32(s.Port) ||
		port.Protocol != core.ProtocolUDP {
		t.Errorf("%+v is the service %+v", s, object)
	}
	if slice.Namespace != object.Namespace || slice.Labels["kubernetes.io/service-name"] != object.Name ||
		*slice.Ports[0].Protocol != core.ProtocolUDP || *slice.Ports[0].Name != port.Name {
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
