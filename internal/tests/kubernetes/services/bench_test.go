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

// The number of services, and of the endpoints of each.
const (
	benchServices  = 1000
	benchEndpoints = 10
)

// BenchmarkChanges measures how long it takes from the beginning of a write to the API server until the kernel has it: an
// endpoint of a service is replaced, when the one before is in the kernel, and then 100 times a second for ten seconds. With
// -benchtime 100x there are 100 of the first.
func BenchmarkChanges(b *testing.B) {
	b.Run("services", func(b *testing.B) {
		measure(b, func(s *apiserver.Server, node *nettest.Place) (pid int) { return newAgent(b, s, node).cmd.Process.Pid })
	})
	if path := os.Getenv(kubeProxy); path != "" {
		b.Run("kube-proxy", func(b *testing.B) {
			measure(b, func(s *apiserver.Server, node *nettest.Place) (pid int) { return startKubeProxy(b, path, s, node) })
		})
	}
}

func startKubeProxy(b *testing.B, path string, s *apiserver.Server, node *nettest.Place) (pid int) {
	file := filepath.Join(b.TempDir(), "kubeconfig")
	require.NoError(b, os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
		clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}],
		users: [{name: c, user: {token: admin}}], contexts: [{name: c, context: {cluster: c, user: c}}]}`, s.Port), 0o600))
	cmd := exec.Command(path, "--kubeconfig="+file, "--proxy-mode=nftables", "--hostname-override=node", "--conntrack-max-per-core=0",
		"--conntrack-min=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	node.Do(cmd.Start)
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if b.Failed() {
			b.Log(output.String())
		}
	})
	return cmd.Process.Pid
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
	at := binary.BigEndian.AppendUint32(nil, 10<<24|128<<16+w.last)
	return discoveryv1.Endpoint{Addresses: []string{netip.AddrFrom4([4]byte(at)).String()}}
}

func (w *workload) fill() {
	name, protocol, port := "web", corev1.ProtocolTCP, int32(8080)
	var all errgroup.Group
	all.SetLimit(10)
	w.slices = make([]*discoveryv1.EndpointSlice, benchServices)
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
		w.mu.Lock()
		for rest := buf[:n]; ; rest = rest[2:] {
			at := bytes.Index(rest, []byte{10, 128})
			if at < 0 || at+4 > len(rest) {
				break
			}
			rest = rest[at:]
			serial := uint32(binary.BigEndian.Uint16(rest[2:]))
			since, waits := w.waiting[serial]
			if !waits {
				continue
			}
			w.took = append(w.took, now.Sub(since))
			if delete(w.waiting, serial); len(w.waiting) == 0 {
				select {
				case w.seen <- struct{}{}:
				default:
				}
			}
		}
		w.mu.Unlock()
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
		return unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, unix.NFNLGRP_NFTABLES)
	})
	return socket
}

// measure measures a program. start starts it, and returns its process.
func measure(b *testing.B, start func(*apiserver.Server, *nettest.Place) int) {
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
	w.fill()

	socket := listen(network.Node)
	looking := make(chan struct{})
	go func() {
		w.look(socket)
		close(looking)
	}()
	defer func() {
		require.NoError(b, socket.Close())
		<-looking
	}()
	pid := start(s, network.Node)
	w.begin()
	w.drain()
	w.took = nil
	before, n := cpu(b, pid), 0
	for b.Loop() {
		w.change(n % benchServices)
		w.drain()
		n++
	}
	b.ReportMetric(0, "ns/op")
	w.report(b, "alone")
	paced, end := time.NewTicker(10*time.Millisecond), time.Now().Add(10*time.Second)
	defer paced.Stop()
	for ; time.Now().Before(end); n++ {
		<-paced.C
		w.change(n % benchServices)
	}
	w.drain()
	w.report(b, "100/s")
	b.ReportMetric(float64((cpu(b, pid)-before).Milliseconds())/float64(n), "cpu-ms/change")
	b.ReportMetric(float64(resident(b, pid))/1024, "MiB")
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
		case <-time.After(time.Minute):
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
