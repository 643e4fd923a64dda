// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/kubernetes"
)

// Cluster is a Kubernetes cluster, whose services and endpoint slices are followed: those that kube-proxy takes. While its
// API server is away, what was read last stays in force, and at the start what the kernel has.
type Cluster struct {
	// Server is where the API server is, and who asks.
	Server *rest.Config
}

// OpenCluster returns the cluster of a kubeconfig. With "" it is the one in which the program runs, as the service account
// of its pod. server replaces the URL of the API server, unless it is "".
func OpenCluster(kubeconfig, server string) (c Cluster, err error) {
	if kubeconfig == "" {
		if c.Server, err = rest.InClusterConfig(); err == nil {
			c.Server.Host = cmp.Or(server, c.Server.Host)
		}
		return c, err
	}
	c.Server, err = clientcmd.BuildConfigFromFlags(server, kubeconfig)
	return c, err
}

func (c Cluster) name() string { return "cluster" }
func (c Cluster) apart() bool  { return true }

func (c Cluster) job(
	toServices *source.Sink[*proxy.Service], toSlices *source.Sink[*proxy.EndpointSlice], log *slog.Logger,
) (func(context.Context) error, error) {
	services, err := kubernetes.New(kubernetes.Config[*corev1.Service, *proxy.Service]{
		// The label says that another program than kube-proxy does it.
		Server: c.Server, Labels: "!service.kubernetes.io/service-proxy-name", Fields: "spec.clusterIP!=None",
		Rows: servicesOf, Sink: toServices, Log: log,
	})
	if err != nil {
		return nil, err
	}
	slices, err := kubernetes.New(kubernetes.Config[*discoveryv1.EndpointSlice, *proxy.EndpointSlice]{
		Server: c.Server, Labels: "!" + corev1.IsHeadlessService, Rows: slicesOf, Sink: toSlices, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return both(services.Run, slices.Run), nil
}

// servicesOf returns the row of a service: none if it has no address of its own.
func servicesOf(s *corev1.Service) ([]*proxy.Service, error) {
	if ip := s.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone || s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil, nil
	}
	row := &proxy.Service{Name: s.Namespace + "/" + s.Name, Created: s.CreationTimestamp.UTC()}
	texts := s.Spec.ClusterIPs
	if len(texts) == 0 { // before Kubernetes 1.20
		texts = []string{s.Spec.ClusterIP}
	}
	for _, text := range texts {
		at, err := addressOf(text)
		if err != nil {
			return nil, err
		}
		row.Addresses = append(row.Addresses, at)
	}
	for _, p := range s.Spec.Ports {
		if protocol, known := protocolOf(p.Protocol); known {
			row.Ports = append(row.Ports, proxy.Port{Name: p.Name, Protocol: protocol, Number: uint16(p.Port)})
		}
	}
	return []*proxy.Service{row}, nil
}

// slicesOf returns the row of a slice: none if it is of no service, or has names of hosts instead of addresses.
func slicesOf(s *discoveryv1.EndpointSlice) ([]*proxy.EndpointSlice, error) {
	service := s.Labels[discoveryv1.LabelServiceName]
	if service == "" || s.AddressType == discoveryv1.AddressTypeFQDN {
		return nil, nil
	}
	row := &proxy.EndpointSlice{Name: s.Namespace + "/" + s.Name, Service: s.Namespace + "/" + service}
	for _, p := range s.Ports {
		// A port without a number is all ports, of which kube-proxy makes nothing.
		if protocol, known := protocolOf(ptr.Deref(p.Protocol, "")); known && p.Name != nil && ptr.Deref(p.Port, 0) != 0 {
			row.Ports = append(row.Ports, proxy.Port{Name: *p.Name, Protocol: protocol, Number: uint16(*p.Port)})
		}
	}
	for _, e := range s.Endpoints {
		if len(e.Addresses) == 0 {
			continue
		}
		// The others are for clients that know what they mean; kube-proxy takes the first one.
		at, err := addressOf(e.Addresses[0])
		if err != nil {
			return nil, err
		}
		row.Endpoints = append(row.Endpoints, proxy.Endpoint{
			Address: at, Ready: ptr.Deref(e.Conditions.Ready, true), Serving: ptr.Deref(e.Conditions.Serving, true),
			Terminating: ptr.Deref(e.Conditions.Terminating, false),
		})
	}
	return []*proxy.EndpointSlice{row}, nil
}

// protocolOf returns a protocol, of which "" is TCP. It is not known if the kernel's table does not have it.
func protocolOf(p corev1.Protocol) (protocol kernel.Protocol, known bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return kernel.TCP, true
	case corev1.ProtocolUDP:
		return kernel.UDP, true
	}
	return protocol, false
}

// addressOf parses an address like kube-proxy: old ones may have leading zeros.
func addressOf(text string) (netip.Addr, error) {
	at, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	if !ok {
		return at, fmt.Errorf("%q is not an IP address", text)
	}
	return at.Unmap(), nil
}
