// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package servicestest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/internal/tests/kubernetes/apiserver"
)

// set is a set of endpoints, as bits.
type set uint16

func (s set) has(endpoint netip.AddrPort) bool {
	for i := range nettest.EndpointCount {
		if at := nettest.EndpointAt(i); s&(1<<i) != 0 && (endpoint == at || endpoint == nettest.TwinOf(at)) {
			return true
		}
	}
	return false
}

// state is what is wanted of a service: its endpoints that are ready, and those that serve while they terminate.
type state struct{ ready, leaving set }

// endpoints are those that get clients.
func (s state) endpoints() set {
	if s.ready != 0 {
		return s.ready
	}
	return s.leaving
}

// service is a service, with a pod for each endpoint at most. Its ports are one of TCP and one of UDP. All have an address of
// each family.
type service struct {
	name   string
	steady bool // it is not deleted, and its first endpoint stays ready

	mu    sync.Mutex
	known bool
	first uint16 // the number of the port of TCP; that of UDP is the next one
	pods  [nettest.EndpointCount]*corev1.Pod
	// states are what was wanted, of which the last one is now. oldest is the first that the kernel may have still. In one
	// that is empty, the service may be unknown, or at another port. moved: it got another port since the oldest.
	states []state
	oldest int
	moved  bool
	// held ends when no endpoint has been ready since the oldest state.
	held context.Context
	end  context.CancelFunc
}

// at returns the address of a port.
func (s *service) at(protocol kernel.Protocol) kernel.Service {
	number := s.first
	if protocol == kernel.UDP {
		number++
	}
	var i byte
	_, _ = fmt.Sscanf(s.name, "service-%d", &i)
	return kernel.Service{Protocol: protocol, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 1, i}), number)}
}

func twinOf(at kernel.Service) kernel.Service {
	return kernel.Service{Protocol: at.Protocol, Address: nettest.TwinOf(at.Address)}
}

func (s *service) now() state { return s.states[len(s.states)-1] }

// want notes what is wanted from now on, before the API server is told.
func (s *service) want(next state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states = append(s.states, next); s.throughout(s.oldest) == 0 {
		s.end()
	}
}

// had reports whether the kernel may have what it is to have next, since it was wanted before something else was.
func (s *service) had(next state) bool {
	return next.endpoints() != s.now().endpoints() &&
		slices.ContainsFunc(s.states[s.oldest:], func(old state) bool { return old.endpoints() == next.endpoints() })
}

// throughout returns the endpoints that were ready since a state.
func (s *service) throughout(from int) (all set) {
	all = ^all
	for _, one := range s.states[from:] {
		all &= one.ready
	}
	return all
}

// since returns the endpoints that got clients since a state.
func (s *service) since(from int) (any set) {
	for _, one := range s.states[from:] {
		any |= one.ready | one.leaving
	}
	return any
}

// world is a node with the program, an API server on the node, and clients.
type world struct {
	*testing.T
	*nettest.Network
	*agent
	server   *apiserver.Server
	client   *kubernetes.Clientset
	random   *rand.Rand
	table    *kernel.Table // to look
	services []*service

	answered, excused atomic.Int64
}

func (w *world) Helper() { w.T.Helper() }

func (w *world) Context() context.Context { return w.T.Context() }

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, Network: nettest.NewNetwork(t), random: rand.New(rand.NewPCG(seed, 0)), server: apiserver.New(t.TempDir())}
	w.server.In, w.server.Slices = w.Node.Try, 3
	w.server.StartFor(t)
	w.client = w.server.Client(t)
	w.Node.Do(func() (err error) {
		w.table, err = kernel.Open("services")
		return err
	})
	t.Cleanup(func() { require.NoError(t, w.table.Close()) })
	w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{}))
	for i := range 10 {
		s := &service{name: fmt.Sprint("service-", i), steady: i < 5, first: 80, states: []state{{}}}
		s.held, s.end = context.WithCancel(t.Context())
		s.end()
		w.services = append(w.services, s)
		if s.steady {
			w.create(s)
			w.change(s, 0, "run")
		}
	}
	w.agent = newAgent(t, w.server, w.Node)
	return w
}

func (w *world) must(_ any, err error) {
	w.Helper()
	require.NoError(w.T, err)
}

func (w *world) create(s *service) {
	s.known = true
	w.must(w.client.CoreV1().Services("default").Create(w.Context(), w.object(s), metav1.CreateOptions{}))
}

func (w *world) object(s *service) *corev1.Service {
	ip := s.at(kernel.TCP).Address.Addr()
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: corev1.ServiceSpec{
			ClusterIP: ip.String(), ClusterIPs: []string{ip.String(), nettest.Twin(ip).String()},
			IPFamilyPolicy: new(corev1.IPFamilyPolicyRequireDualStack), Selector: map[string]string{"app": s.name},
			Ports: []corev1.ServicePort{
				{Name: "web", Protocol: corev1.ProtocolTCP, Port: int32(s.first), TargetPort: intstr.FromInt32(8080)},
				{Name: "dns", Protocol: corev1.ProtocolUDP, Port: int32(s.first + 1), TargetPort: intstr.FromInt32(8080)},
			},
		},
	}
}

// change changes the pod of an endpoint: run creates it, ready and unready are of its probe, leave deletes it, and gone is
// when its containers have ended.
func (w *world) change(s *service, i int, what string) {
	w.Helper()
	pods, ctx := w.client.CoreV1().Pods("default"), w.Context()
	bit, next := set(1)<<i, s.now()
	switch next.ready, next.leaving = next.ready&^bit, next.leaving&^bit; what {
	case "run", "ready":
		next.ready |= bit
	case "leave":
		next.leaving |= s.now().ready & bit
	}
	if s.known {
		w.settleBefore(s.had(next))
		s.want(next)
	}
	pod := s.pods[i]
	switch what {
	case "run":
		pod = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.name, i), Labels: map[string]string{"app": s.name}},
			Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		require.NoError(w.T, err)
		pod = made
		ip := nettest.EndpointAt(i).Addr()
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip.String(), PodIPs: []corev1.PodIP{{IP: ip.String()}, {IP: nettest.Twin(ip).String()}},
		}
		fallthrough
	case "ready", "unready":
		is := corev1.ConditionTrue
		if what == "unready" {
			is = corev1.ConditionFalse
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is}}
		made, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		require.NoError(w.T, err)
		s.pods[i] = made
	case "leave":
		require.NoError(w.T, pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}))
		made, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		require.NoError(w.T, err)
		require.NotNil(w.T, made.DeletionTimestamp)
		s.pods[i] = made
	case "gone":
		require.NoError(w.T, pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		s.pods[i] = nil
	}
}

// randomChange changes something of a service.
func (w *world) randomChange() {
	w.Helper()
	s := w.services[w.random.IntN(len(w.services))]
	if kind := w.random.IntN(10); kind == 0 && !s.steady {
		s.flip(w)
		return
	} else if kind == 1 && s.known && !s.steady {
		w.settleBefore(s.moved)
		ready := s.now()
		s.want(state{leaving: ready.ready | ready.leaving}) // at neither port
		s.mu.Lock()
		s.first, s.moved = 80+90-s.first, true
		s.mu.Unlock()
		w.must(w.client.CoreV1().Services("default").Update(w.Context(), w.object(s), metav1.UpdateOptions{}))
		s.want(ready)
		return
	}
	i := w.random.IntN(nettest.EndpointCount)
	if s.steady && i == 0 {
		i++
	}
	switch pod := s.pods[i]; {
	case pod == nil:
		w.change(s, i, "run")
	case pod.DeletionTimestamp != nil:
		w.change(s, i, "gone")
	default:
		w.change(s, i, []string{"ready", "unready", "leave"}[w.random.IntN(3)])
	}
}

// flip deletes a service, or makes it again. Its pods stay.
func (s *service) flip(w *world) {
	next := s.ofPods()
	if !s.known {
		w.settleBefore(s.had(next))
		w.create(s)
		s.want(next)
		return
	}
	w.settleBefore(s.had(state{}))
	s.want(state{})
	s.known = false
	require.NoError(w.T, w.client.CoreV1().Services("default").Delete(w.Context(), s.name, metav1.DeleteOptions{}))
}

// ofPods returns what the pods make of the service while it is known.
func (s *service) ofPods() (is state) {
	for i, pod := range s.pods {
		switch {
		case pod == nil || pod.Status.Conditions[0].Status == corev1.ConditionFalse:
		case pod.DeletionTimestamp != nil:
			is.leaving |= 1 << i
		default:
			is.ready |= 1 << i
		}
	}
	return is
}

// dump is what the kernel has, or should have: the endpoints of each frontend.
type dump map[kernel.Service][]netip.AddrPort

func (d dump) add(at kernel.Service, endpoint netip.AddrPort) {
	if !slices.Contains(d[at], endpoint) {
		d[at] = append(d[at], endpoint)
		slices.SortFunc(d[at], netip.AddrPort.Compare)
	}
}

// inKernel returns what the kernel has of the services of the test.
func (w *world) inKernel() dump {
	l, err := w.table.List()
	require.NoError(w.T, err)
	has := dump{}
	for at := range l.Counts {
		has[at] = nil
	}
	for slot, endpoint := range l.Slots {
		if slot.Number >= l.Counts[slot.Service] {
			endpoint = netip.AddrPort{} // no slot to draw
		}
		has.add(slot.Service, endpoint)
	}
	return has
}

// wanted returns what the pods and services make of the kernel.
func (w *world) wanted() dump {
	want := dump{}
	for _, s := range w.services {
		if !s.known {
			continue
		}
		for _, protocol := range []kernel.Protocol{kernel.TCP, kernel.UDP} {
			at := s.at(protocol)
			want[at], want[twinOf(at)] = nil, nil
			for i := range nettest.EndpointCount {
				if s.now().endpoints()&(1<<i) != 0 {
					want.add(at, nettest.EndpointAt(i))
					want.add(twinOf(at), nettest.TwinOf(nettest.EndpointAt(i)))
				}
			}
		}
	}
	return want
}

// inServer returns what the objects of the API server make of the kernel.
func (w *world) inServer() dump {
	services, err := w.client.CoreV1().Services("").List(w.Context(), metav1.ListOptions{})
	require.NoError(w.T, err)
	all, err := w.client.DiscoveryV1().EndpointSlices("").List(w.Context(), metav1.ListOptions{})
	require.NoError(w.T, err)
	want := dump{}
	for _, s := range services.Items {
		for _, port := range s.Spec.Ports {
			for _, ip := range s.Spec.ClusterIPs {
				protocol := map[corev1.Protocol]kernel.Protocol{"TCP": kernel.TCP, "UDP": kernel.UDP}[port.Protocol]
				at := kernel.Service{Protocol: protocol, Address: netip.AddrPortFrom(netip.MustParseAddr(ip), uint16(port.Port))}
				want[at] = nil
				if want.addSlices(at, &s, port, all.Items, func(c discoveryv1.EndpointConditions) bool { return *c.Ready }); want[at] == nil {
					want.addSlices(at, &s, port, all.Items, func(c discoveryv1.EndpointConditions) bool { return *c.Serving && *c.Terminating })
				}
			}
		}
	}
	return want
}

// addSlices adds the endpoints of a port of a service that have some conditions.
func (d dump) addSlices(
	at kernel.Service, s *corev1.Service, port corev1.ServicePort, all []discoveryv1.EndpointSlice, takes func(discoveryv1.EndpointConditions) bool,
) {
	for _, slice := range all {
		if slice.Namespace != s.Namespace || slice.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		for _, p := range slice.Ports {
			for _, e := range slice.Endpoints {
				ip := netip.MustParseAddr(e.Addresses[0])
				if *p.Name == port.Name && *p.Protocol == port.Protocol && ip.Is4() == at.Address.Addr().Is4() && takes(e.Conditions) {
					d.add(at, netip.AddrPortFrom(ip, uint16(*p.Port)))
				}
			}
		}
	}
}

// own leaves the services of the API server itself out.
func (d dump) own() dump {
	maps.DeleteFunc(d, func(at kernel.Service, _ []netip.AddrPort) bool { return at.Address.Port() == 443 })
	return d
}

func (d dump) equal(other dump) bool { return maps.EqualFunc(d, other, slices.Equal) }

// settleBefore waits before a change that takes back another one: the kernel may have what is wanted after both because it
// has neither yet, or because it has both.
func (w *world) settleBefore(takesBack bool) {
	if takesBack {
		w.settle()
	}
}

// restart starts the program again, and waits until the kernel is as its first lists of the API server say.
func (w *world) restart() {
	w.Helper()
	w.kill()
	w.start()
	w.ready()
	w.settle()
}

// settle waits until the kernel has what is wanted now.
func (w *world) settle() {
	w.Helper()
	want := w.wanted()
	eventually(w.T, func() bool { return want.equal(w.inKernel().own()) }, func() string {
		return fmt.Sprintf("the kernel has\n%v\nnot\n%v\nthe API server wants\n%v\n%s\n%s", w.inKernel(), want, w.inServer(), w.status(), &w.output)
	})
	for _, s := range w.services {
		s.mu.Lock()
		s.oldest, s.moved = len(s.states)-1, false
		if s.held.Err() != nil && s.now().ready != 0 {
			s.held, s.end = context.WithCancel(w.Context())
		}
		s.mu.Unlock()
	}
}

// connect connects to a port of a service, and checks that it is answered if an endpoint was ready all the time, and only by
// an endpoint that had clients meanwhile.
func (w *world) connect(s *service, protocol kernel.Protocol, twin bool) error {
	s.mu.Lock()
	at, oldest, held := s.at(protocol), s.oldest, s.held
	s.mu.Unlock()
	if twin {
		at = twinOf(at)
	}
	if held.Err() != nil {
		w.excused.Add(1)
		return nil
	}
	for deadline := time.Now().Add(nettest.Limit); ; {
		g, err := nettest.Ask(held, protocol.String(), at.Address, netip.AddrPort{})
		s.mu.Lock()
		throughout, since := s.throughout(oldest), s.since(oldest)
		s.mu.Unlock()
		switch {
		case err != nil && throughout == 0:
			w.excused.Add(1)
			return nil
		case err != nil:
			return fmt.Errorf("%s of %s, of which %b were ready throughout, after %d others: %w", at, s.name, throughout, w.answered.Load(), err)
		case since.has(g.Endpoint):
			w.answered.Add(1)
			return nil
		// The port of the client may be that of an older flow, which conntrack forgets beside the rounds.
		case protocol == kernel.TCP || time.Now().After(deadline):
			return fmt.Errorf("%s of %s is answered by %s, not by one of %b", at, s.name, g.Endpoint, since)
		}
	}
}
