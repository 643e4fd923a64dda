// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
)

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestServicesAreTakenAsKubeProxyTakesThem(t *testing.T) {
	created := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	meta := metav1.ObjectMeta{
		Namespace: "default", Name: "web", CreationTimestamp: metav1.NewTime(created.In(time.FixedZone("", 3600))),
	}
	of := func(ips ...string) corev1.ServiceSpec { return corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips} }
	with := func(spec corev1.ServiceSpec, change func(*corev1.ServiceSpec)) corev1.ServiceSpec {
		change(&spec)
		return spec
	}
	row := func(addresses []netip.Addr, ports ...proxy.Port) *proxy.Service {
		return &proxy.Service{Name: "default/web", Created: created, Addresses: addresses, Ports: ports}
	}
	for name, c := range map[string]struct {
		spec corev1.ServiceSpec
		want *proxy.Service // nil means none
	}{
		"an address": {of("10.96.0.1"), row(addresses("10.96.0.1"))},
		"an address without the list": {
			corev1.ServiceSpec{ClusterIP: "10.96.0.1"}, row(addresses("10.96.0.1")),
		},
		"zeros before a number": {of("010.096.0.01"), row(addresses("10.96.0.1"))},
		"of both families":      {of("10.96.0.1", "fd00::1"), row(addresses("10.96.0.1", "fd00::1"))},
		"of both, IPv6 first":   {of("fd00::1", "10.96.0.1"), row(addresses("fd00::1", "10.96.0.1"))},
		"of IPv6":               {of("fd00::1"), row(addresses("fd00::1"))},
		"headless":              {of("None"), nil},
		"without an address":    {corev1.ServiceSpec{}, nil},
		"of another name":       {with(of("10.96.0.1"), func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeExternalName }), nil},
		"a load balancer":       {with(of("10.96.0.1"), func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer }), row(addresses("10.96.0.1"))},
		"ports": {
			with(of("10.96.0.1"), func(s *corev1.ServiceSpec) {
				s.Ports = []corev1.ServicePort{
					{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
					{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}, {Name: "sctp", Protocol: corev1.ProtocolSCTP, Port: 1},
					{Port: 65535},
				}
			}),
			row(addresses("10.96.0.1"), proxy.Port{Name: "http", Protocol: kernel.TCP, Number: 80},
				proxy.Port{Name: "dns", Protocol: kernel.UDP, Number: 53}, proxy.Port{Protocol: kernel.TCP, Number: 65535}),
		},
	} {
		rows, err := servicesOf(&corev1.Service{ObjectMeta: meta, Spec: c.spec})
		require.NoError(t, err, name)
		if c.want == nil {
			assert.Empty(t, rows, name)
		} else {
			assert.Equal(t, []*proxy.Service{c.want}, rows, name)
		}
	}
	_, err := servicesOf(&corev1.Service{Spec: of("10.96.0.1", "x")})
	assert.EqualError(t, err, `"x" is not an IP address`)
}

func TestSlicesAreTakenAsKubeProxyTakesThem(t *testing.T) {
	yes, no := new(true), new(false)
	port := func(name string, protocol corev1.Protocol, number int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &number}
	}
	endpoint := func(ready, serving, terminating *bool, addresses ...string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}}
	}
	slice := func(kind discoveryv1.AddressType, ports []discoveryv1.EndpointPort, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "web-x7f2q", Labels: map[string]string{"kubernetes.io/service-name": "web"},
			},
			AddressType: kind, Ports: ports, Endpoints: endpoints,
		}
	}
	at, at6 := netip.MustParseAddr("10.2.0.11"), netip.MustParseAddr("fd01::1")
	for name, c := range map[string]struct {
		slice     *discoveryv1.EndpointSlice
		ports     []proxy.Port
		endpoints []proxy.Endpoint
	}{
		"nothing": {slice(discoveryv1.AddressTypeIPv4, nil), nil, nil},
		"conditions": {
			slice(discoveryv1.AddressTypeIPv4, nil, endpoint(nil, nil, nil, "10.2.0.11"), endpoint(yes, yes, no, "10.2.0.11"),
				endpoint(no, nil, yes, "10.2.0.11"), endpoint(no, no, yes, "10.2.0.11"), endpoint(no, yes, no, "10.2.0.11")),
			nil, []proxy.Endpoint{
				{Address: at, Ready: true, Serving: true}, {Address: at, Ready: true, Serving: true},
				{Address: at, Serving: true, Terminating: true}, {Address: at, Terminating: true}, {Address: at, Serving: true},
			},
		},
		"addresses": {
			slice(discoveryv1.AddressTypeIPv4, nil, endpoint(nil, nil, nil, "010.2.0.11", "10.2.0.12"), endpoint(nil, nil, nil)),
			nil, []proxy.Endpoint{{Address: at, Ready: true, Serving: true}},
		},
		"of IPv6": {
			slice(discoveryv1.AddressTypeIPv6, nil, endpoint(nil, nil, nil, "fd01::1")),
			nil, []proxy.Endpoint{{Address: at6, Ready: true, Serving: true}},
		},
		"ports": {
			slice(discoveryv1.AddressTypeIPv4, []discoveryv1.EndpointPort{
				port("http", corev1.ProtocolTCP, 8080), port("dns", corev1.ProtocolUDP, 53), port("", corev1.ProtocolTCP, 1),
				port("sctp", corev1.ProtocolSCTP, 2), port("zero", corev1.ProtocolTCP, 0), {Name: new("all")}, {Port: new(int32(3))},
				{Name: new("default"), Port: new(int32(4))},
			}),
			[]proxy.Port{
				{Name: "http", Protocol: kernel.TCP, Number: 8080}, {Name: "dns", Protocol: kernel.UDP, Number: 53},
				{Protocol: kernel.TCP, Number: 1}, {Name: "default", Protocol: kernel.TCP, Number: 4},
			}, nil,
		},
	} {
		rows, err := slicesOf(c.slice)
		require.NoError(t, err, name)
		assert.Equal(t, []*proxy.EndpointSlice{
			{Name: "default/web-x7f2q", Service: "default/web", Ports: c.ports, Endpoints: c.endpoints},
		}, rows, name)
	}

	ofNone := slice(discoveryv1.AddressTypeIPv4, nil)
	ofNone.Labels = nil
	for _, s := range []*discoveryv1.EndpointSlice{ofNone, slice(discoveryv1.AddressTypeFQDN, nil, endpoint(nil, nil, nil, "example.org"))} {
		rows, err := slicesOf(s)
		require.NoError(t, err)
		assert.Empty(t, rows)
	}
	_, err := slicesOf(slice(discoveryv1.AddressTypeIPv4, nil, endpoint(nil, nil, nil, "")))
	assert.EqualError(t, err, `"" is not an IP address`)
}

// start checks that neither table is initialised before its source has read the first list.
func TestNothingIsCompleteBeforeTheClusterHasAnswered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	var asked atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
			asked.Add(1)
		}
	}()
	p := start(t, Cluster{Server: &rest.Config{Host: "http://" + l.Addr().String()}})
	p.until("both have failed", func() bool { return asked.Load() >= 4 })
	assert.Empty(t, p.initialized())
	assert.Empty(t, p.names())
}

func TestClustersAreOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	put(t, file, `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}],
		users: [{name: c, user: {token: secret}}], contexts: [{name: c, context: {cluster: c, user: c}}]}`)
	c, err := OpenCluster(file, "")
	require.NoError(t, err)
	assert.Equal(t, "https://192.0.2.1:6443", c.Server.Host)
	assert.Equal(t, "secret", c.Server.BearerToken)
	c, err = OpenCluster(file, "https://192.0.2.2:6443")
	require.NoError(t, err)
	assert.Equal(t, "https://192.0.2.2:6443", c.Server.Host)
	_, err = OpenCluster(file+"x", "")
	assert.ErrorIs(t, err, os.ErrNotExist)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err = OpenCluster("", "https://192.0.2.1:6443")
	assert.ErrorIs(t, err, rest.ErrNotInCluster)
}
