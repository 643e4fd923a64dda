// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package servicestest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/internal/tests/kubernetes/apiserver"
)

// kubeProxy is the variable with the path of kube-proxy, which is measured, too, if it is set. It takes root. In the folder
// server:
//
//	cp go.mod /tmp/kube-proxy.mod && cp go.sum /tmp/kube-proxy.sum
//	go get -modfile=/tmp/kube-proxy.mod k8s.io/kubernetes/cmd/kube-proxy
//	go build -modfile=/tmp/kube-proxy.mod -o /tmp/kube-proxy k8s.io/kubernetes/cmd/kube-proxy
const kubeProxy = "KUBE_PROXY"

const (
	// benchEndpoints is the number of endpoints of a service.
	benchEndpoints = 10
	// firstEndpoint is before the address of the first endpoint, 10.128.0.1.
	firstEndpoint = 10<<24 | 128<<16
)

// BenchmarkChanges measures how long it takes from the beginning of a write to the API server until the kernel has it: an
// endpoint of a service is replaced, when the one before is in the kernel, and then 100 times a second for ten seconds. With
// -benchtime 100x there are 100 of the first. At the end the program is killed and started again, and the API server is away
// for a minute: a change that is made then is measured, too. A watch alone, without any program, is the floor.
func BenchmarkChanges(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("%d/watch", n), func(b *testing.B) { measure(b, n, nil) })
		b.Run(fmt.Sprintf("%d/services", n), func(b *testing.B) {
			measure(b, n, func(s *apiserver.Server, node *nettest.Place) program {
				a := newAgent(b, s, node)
				return program{start: a.start, kill: a.kill, pid: func() int { return a.cmd.Process.Pid }}
			})
		})
		if path := os.Getenv(kubeProxy); path != "" {
			b.Run(fmt.Sprintf("%d/kube-proxy", n), func(b *testing.B) {
				measure(b, n, func(s *apiserver.Server, node *nettest.Place) program { return newKubeProxy(b, path, s, node) })
			})
		}
	}
}

// program is a program that runs.
type program struct {
	start, kill func()
	pid         func() int
}

func newKubeProxy(b *testing.B, path string, s *apiserver.Server, node *nettest.Place) program {
	file := filepath.Join(b.TempDir(), "kubeconfig")
	require.NoError(b, os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
		clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}],
		users: [{name: c, user: {token: admin}}], contexts: [{name: c, context: {cluster: c, user: c}}]}`, s.Port), 0o600))
	var output bytes.Buffer
	var cmd *exec.Cmd
	proxy := program{
		start: func() {
			cmd = exec.Command(path, "--kubeconfig="+file, "--proxy-mode=nftables", "--hostname-override=node",
				"--conntrack-max-per-core=0", "--conntrack-min=0", "--conntrack-tcp-timeout-established=0s",
				"--conntrack-tcp-timeout-close-wait=0s")
			cmd.Stdout, cmd.Stderr = &output, &output
			node.Do(cmd.Start)
		},
		kill: func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		},
		pid: func() int { return cmd.Process.Pid },
	}
	proxy.start()
	b.Cleanup(func() {
		if proxy.kill(); b.Failed() {
			b.Log(output.String())
		}
	})
	return proxy
}

// workload is services in an API server, whose endpoints have addresses from 10.128.0.0 on, each a new one.
type workload struct {
	testing.TB
	client *kubernetes.Clientset
	slices []*discoveryv1.EndpointSlice
	last   uint32

	mu      sync.Mutex
	waiting map[uint32]time.Time // since when, by the address of an endpoint
	took    []time.Duration
	seen    chan struct{} // gets a value when nothing waits any more, unless it has one
}

func (w *workload) next() (endpoint discoveryv1.Endpoint) {
	w.last++
	at := binary.BigEndian.AppendUint32(nil, firstEndpoint+w.last)
	return discoveryv1.Endpoint{Addresses: []string{netip.AddrFrom4([4]byte(at)).String()}}
}

func (w *workload) fill(services int) {
	name, protocol, port := "web", corev1.ProtocolTCP, int32(8080)
	var all errgroup.Group
	all.SetLimit(10)
	w.slices = make([]*discoveryv1.EndpointSlice, services)
	for i := range w.slices {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}, Spec: corev1.ServiceSpec{
			ClusterIP: fmt.Sprintf("10.96.%d.%d", 10+i/200, 1+i%200), Ports: []corev1.ServicePort{{Name: name, Port: 80}},
		}}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
		}
		for range benchEndpoints {
			slice.Endpoints = append(slice.Endpoints, w.next())
		}
		all.Go(func() (err error) {
			if _, err = w.client.CoreV1().Services("default").Create(w.Context(), s, metav1.CreateOptions{}); err == nil {
				w.slices[i], err = w.client.DiscoveryV1().EndpointSlices("default").Create(w.Context(), slice, metav1.CreateOptions{})
			}
			return err
		})
	}
	require.NoError(w, all.Wait())
}

// change replaces an endpoint of a slice.
func (w *workload) change(i int) {
	i %= len(w.slices)
	slice := w.slices[i]
	slice.Endpoints[i%benchEndpoints] = w.next()
	w.mu.Lock()
	w.waiting[w.last] = time.Now()
	w.mu.Unlock()
	made, err := w.client.DiscoveryV1().EndpointSlices("default").Update(w.Context(), slice, metav1.UpdateOptions{})
	require.NoError(w, err)
	w.slices[i] = made
}

// look reads what the kernel says about its commits, until the socket is closed.
func (w *workload) look(socket *os.File) {
	buf := make([]byte, 1<<20)
	for {
		n, err := socket.Read(buf)
		if errors.Is(err, unix.ENOBUFS) {
			continue // the first load was more than fits: see begin
		} else if err != nil {
			return
		}
		now := time.Now()
		for rest := buf[:n]; ; rest = rest[1:] {
			at := bytes.IndexByte(rest, 10)
			if at < 0 || at+4 > len(rest) {
				break
			}
			rest = rest[at:]
			w.sees(binary.BigEndian.Uint32(rest)-firstEndpoint, now)
		}
	}
}

// sees notes that something has an endpoint, if that is waited for.
func (w *workload) sees(serial uint32, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, waits := w.waiting[serial]
	if !waits {
		return
	}
	w.took = append(w.took, now.Sub(since))
	if delete(w.waiting, serial); len(w.waiting) == 0 {
		select {
		case w.seen <- struct{}{}:
		default:
		}
	}
}

// watch reads what the API server says about its slices, until the watch ends.
func (w *workload) watch(events watch.Interface) {
	for e := range events.ResultChan() {
		now := time.Now()
		slice, is := e.Object.(*discoveryv1.EndpointSlice)
		if !is {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if at := netip.MustParseAddr(endpoint.Addresses[0]).As4(); at[0] == 10 {
				w.sees(binary.BigEndian.Uint32(at[:])-firstEndpoint, now)
			}
		}
	}
}

// begin changes endpoints until the kernel says that it has one: then it has all that was there before, too.
func (w *workload) begin() {
	for i := range 100 {
		w.change(i)
		select {
		case <-w.seen:
			return
		case <-time.After(3 * time.Second):
			w.mu.Lock()
			clear(w.waiting)
			w.mu.Unlock()
		}
	}
	require.Fail(w, "the program does not follow")
}

// listen opens a socket on which the kernel of a node says what was committed.
func listen(node *nettest.Place) (socket *os.File) {
	node.Do(func() error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		socket = os.NewFile(uintptr(fd), "netlink")
		if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
		// A sync of kube-proxy is more than fits into what is usual. Root of a namespace may not have more.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil && !errors.Is(err, unix.EPERM) {
			return err
		}
		return unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES)
	})
	return socket
}

// measure measures a program with a number of services. start starts it the first time; nil is a watch alone.
func measure(b *testing.B, n int, start func(*apiserver.Server, *nettest.Place) program) {
	network, s := nettest.NewNetwork(b), apiserver.New(b.TempDir())
	s.In = network.Node.Try
	s.StartFor(b)
	w := &workload{TB: b, client: s.Client(b), waiting: map[uint32]time.Time{}, seen: make(chan struct{}, 1)}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nettest.NodeAddress}}
	made, err := w.client.CoreV1().Nodes().Create(b.Context(), node, metav1.CreateOptions{})
	require.NoError(b, err)
	made.Status = node.Status
	_, err = w.client.CoreV1().Nodes().UpdateStatus(b.Context(), made, metav1.UpdateOptions{})
	require.NoError(b, err)
	w.fill(n)

	p := program{pid: os.Getpid}
	var looking sync.WaitGroup
	defer looking.Wait()
	if start == nil {
		from := metav1.ListOptions{ResourceVersion: w.slices[n-1].ResourceVersion}
		events, err := w.client.DiscoveryV1().EndpointSlices("default").Watch(b.Context(), from)
		require.NoError(b, err)
		defer events.Stop()
		looking.Go(func() { w.watch(events) })
	} else {
		socket := listen(network.Node)
		defer func() { require.NoError(b, socket.Close()) }()
		looking.Go(func() { w.look(socket) })
		p = start(s, network.Node)
	}
	w.begin()
	w.drain()
	w.took = nil
	before, changes := cpu(b, p.pid()), 0
	for b.Loop() {
		w.change(changes)
		w.drain()
		changes++
	}
	b.ReportMetric(0, "ns/op")
	w.report(b, "alone")
	paced, end := time.NewTicker(10*time.Millisecond), time.Now().Add(10*time.Second)
	defer paced.Stop()
	for ; time.Now().Before(end); changes++ {
		<-paced.C
		w.change(changes)
	}
	w.drain()
	w.report(b, "100/s")
	if start == nil {
		return
	}
	b.ReportMetric(float64((cpu(b, p.pid())-before).Milliseconds())/float64(changes), "cpu-ms/change")
	b.ReportMetric(float64(resident(b, p.pid()))/1024, "MiB")

	p.kill()
	w.change(changes)
	p.start()
	w.reportOne(b, "restart-ms")
	s.Kill()
	time.Sleep(time.Minute)
	require.NoError(b, s.Start())
	w.change(changes + 1)
	w.reportOne(b, "return-ms")
}

// reportOne waits until the kernel has the one change that is made, and reports how long that took.
func (w *workload) reportOne(b *testing.B, unit string) {
	w.drain()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(b, w.took, 1)
	b.ReportMetric(float64(w.took[0].Milliseconds()), unit)
	w.took = nil
}

// drain waits until nothing waits.
func (w *workload) drain() {
	for {
		w.mu.Lock()
		left := len(w.waiting)
		w.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-w.seen:
		case <-time.After(5 * time.Minute):
			require.Fail(w, "the kernel does not have all", "%d are missing", left)
		}
	}
}

// report reports what changes took, and forgets it.
func (w *workload) report(b *testing.B, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.took)
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(w.took[(len(w.took)-1)*percent/100].Microseconds())/1000, fmt.Sprintf("p%d-%s-ms", percent, name))
	}
	w.took = nil
}

// cpu returns what a process has taken, with the children that it has waited for.
func cpu(b *testing.B, pid int) (all time.Duration) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):]))
	for _, field := range fields[12:16] { // utime, stime, cutime, cstime
		ticks, err := strconv.Atoi(field)
		require.NoError(b, err)
		all += time.Duration(ticks) * 10 * time.Millisecond
	}
	return all
}

// resident returns the memory of a process in KiB.
func resident(b *testing.B, pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(b, err)
	return kib
}
