// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	config "k8s.io/kubernetes/pkg/proxy/apis/config"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	"k8s.io/kubernetes/pkg/proxy/metrics"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"

	"github.com/statekeel/statekeel/benchmarks/kubeproxy/measure"
)

const (
	node      = "node" // on which the proxier runs
	otherNode = "other-node"
	namespace = "default"
)

// nodeIP is the address of the node, on which kube-proxy as shipped opens node ports.
var nodeIP = net.IPv4(192, 0, 2, 1)

// proxy is kube-proxy's nftables proxier for IPv4, with what kube-proxy as shipped gives it: no detection of local
// traffic, as no range of pods is set, and node ports on the primary address. It lists by netlink, and writes by nft. It
// has no recorder, which it needs for the health checks of load balancers only. What kube-proxy holds beside it is not
// here, above all the caches of its informers and a second proxier for IPv6: a real one takes more memory.
type proxy struct {
	minSync, sync time.Duration
	proxier       *nftables.Proxier
	known         map[string]struct{} // services whose address and port the proxier has
}

// Start does what kube-proxy does before its informers have anything.
func (p *proxy) Start(ctx context.Context) error {
	metrics.RegisterMetrics(config.ProxyModeNFTables)
	p.known = make(map[string]struct{})
	cfg := &config.KubeProxyConfiguration{
		NFTables:          config.KubeProxyNFTablesConfiguration{MasqueradeBit: new(int32(14))}, // as shipped
		NodePortAddresses: []string{nodeIP.String() + "/32"},
		SyncPeriod:        meta.Duration{Duration: p.sync},
		MinSyncPeriod:     meta.Duration{Duration: p.minSync},
	}
	var err error
	p.proxier, err = nftables.NewProxier(ctx, cfg, core.IPv4Protocol, proxyutil.NewNoOpLocalDetector(), node, nodeIP, nil,
		healthcheck.NewProxyHealthServer("", 2*p.sync, nil), false)
	if err != nil {
		return err
	}
	go p.proxier.SyncLoop() // which never returns
	return nil
}

func (p *proxy) Apply(services []measure.Service) error {
	for _, s := range services {
		_, known := p.known[s.Name]
		slice := endpointSlice(s)
		if known {
			p.proxier.OnEndpointSliceUpdate(nil, slice)
			continue
		}
		p.known[s.Name] = struct{}{}
		p.proxier.OnServiceAdd(service(s))
		p.proxier.OnEndpointSliceAdd(slice)
	}
	return nil
}

// Complete makes the proxier begin, as the ends of the first lists of both informers do. The second one syncs itself,
// and returns when that is done.
func (p *proxy) Complete(context.Context) error {
	p.proxier.OnServiceSynced()
	p.proxier.OnEndpointSlicesSynced()
	return nil
}

// Stop leaves the proxier to the end of the process: it has no other.
func (p *proxy) Stop() error { return nil }

// Layout says that a service is an element of a map from its address, protocol and port to a chain. An endpoint is the data
// of an element of the anonymous map in the only rule of such a chain or, if it is the only one of its service, what that
// rule itself translates to.
func (p *proxy) Layout() measure.Layout {
	return measure.Layout{
		Endpoint: func(e measure.Element) (netip.AddrPort, bool) {
			if len(e.Data) == 0 {
				return netip.AddrPort{}, false
			}
			return measure.AddrPort(e.Data, 0, 4)
		},
		Service: func(e measure.Element) (netip.AddrPort, bool) {
			if string(e.Set) != "service-ips" {
				return netip.AddrPort{}, false
			}
			return measure.AddrPort(e.Key, 0, 8)
		},
		Rule: func(values [][]byte) (netip.AddrPort, bool) {
			if len(values) != 2 || len(values[0]) != 4 || len(values[1]) != 2 {
				return netip.AddrPort{}, false
			}
			return measure.AddrPort(slices.Concat(values[0], values[1]), 0, 4)
		},
	}
}

func service(s measure.Service) *core.Service {
	return &core.Service{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: s.Name},
		Spec: core.ServiceSpec{
			Type:       core.ServiceTypeClusterIP,
			ClusterIP:  s.Addr.String(),
			ClusterIPs: []string{s.Addr.String()},
			IPFamilies: []core.IPFamily{core.IPv4Protocol},
			Ports: []core.ServicePort{{
				Protocol:   core.ProtocolTCP,
				Port:       int32(s.Port),
				TargetPort: intstr.FromInt32(int32(s.Endpoints[0].Port())),
			}},
		},
	}
}

// endpointSlice has all endpoints of a service, which have one port. They are on another node, as most are.
func endpointSlice(s measure.Service) *discovery.EndpointSlice {
	endpoints := make([]discovery.Endpoint, 0, len(s.Endpoints))
	for _, e := range s.Endpoints {
		endpoints = append(endpoints, discovery.Endpoint{
			Addresses:  []string{e.Addr().String()},
			Conditions: discovery.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(otherNode),
		})
	}
	return &discovery.EndpointSlice{
		ObjectMeta: meta.ObjectMeta{
			Namespace: namespace,
			Name:      s.Name + "-slice",
			Labels:    map[string]string{discovery.LabelServiceName: s.Name},
		},
		AddressType: discovery.AddressTypeIPv4,
		Endpoints:   endpoints,
		Ports: []discovery.EndpointPort{{
			Name:     new(""),
			Protocol: new(core.ProtocolTCP),
			Port:     new(int32(s.Endpoints[0].Port())),
		}},
	}
}
