// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

const (
	// groupCount groups of services are changed and asked about at the same time. Each has so many services, slices, and
	// addresses of a family.
	groupCount, serviceCount, sliceCount, addressCount = 6, 3, 5, 3
	// A client of a group has firstPort and the following ones. It comes from the same one again when conntrack has
	// forgotten the first flow.
	firstPort, portCount = 2000, 10_000
)

// rowName names a row of the services or of the endpoint slices.
type rowName struct{ table, name string }

// edit is what is written in one transaction. A nil row is deleted.
type edit struct {
	services map[string]*Service
	slices   map[string]*EndpointSlice
}

func (c edit) rows() (rows []rowName) {
	for name := range c.services {
		rows = append(rows, rowName{ServicesTable, name})
	}
	for name := range c.slices {
		rows = append(rows, rowName{SlicesTable, name})
	}
	return rows
}

// state is what is wanted at a moment.
type state struct {
	// frontends are those that are wanted. Another address is answered by the host outside.
	frontends map[kernel.Service]*Frontend
	// leads has for each row the addresses that it leads to, whether or not its service gets them.
	leads map[rowName]map[kernel.Service]bool
}

// has reports whether an answer is wanted. It is invalid if the connection was refused.
func (s state) has(at kernel.Service, from netip.AddrPort) bool {
	switch f := s.frontends[at]; {
	case f == nil:
		return from == at.Address
	case len(f.Endpoints) == 0:
		return !from.IsValid()
	default:
		return slices.Contains(f.Endpoints, from)
	}
}

// group is a few services and slices that no other goroutine changes.
type group struct {
	*prober
	*rand.Rand
	number   int
	services map[string]*Service
	slices   map[string]*EndpointSlice
	// states are those since the start of the program before, the present one last. start is the number of the first one of
	// the present program, changed that of the last change of a row since.
	states  []state
	start   int
	changed map[rowName]int
	// serves has for each slice the services that it is or was a part of.
	serves map[string]map[string]bool
	// orphans are addresses that the last states of the program before have led to, and none since.
	orphans map[kernel.Service]bool
	// resume ends the pause of the present step, if there is one.
	resume func()
	// connections counts those to an address.
	connections map[kernel.Service]int
}

// addresses returns an address of the group of each family.
func (g *group) addresses(n int) []netip.Addr {
	four := netip.AddrFrom4([4]byte{10, 96, byte(8 + g.number), byte(1 + n)})
	return []netip.Addr{four, nettest.Twin(four)}
}

// everywhere returns where a service of the group may be.
func (g *group) everywhere() (all []kernel.Service) {
	for n := range addressCount {
		for _, a := range g.addresses(n) {
			for _, port := range []uint16{80, 81} {
				for _, protocol := range []kernel.Protocol{kernel.TCP, kernel.UDP} {
					all = append(all, kernel.Service{Protocol: protocol, Address: netip.AddrPortFrom(a, port)})
				}
			}
		}
	}
	return all
}

func (g *group) serviceName() string {
	return fmt.Sprintf("%d/service-%d", g.number, g.IntN(serviceCount))
}
func (g *group) sliceName() string { return fmt.Sprintf("%d/slice-%d", g.number, g.IntN(sliceCount)) }

func (g *group) anyRow() rowName {
	if g.IntN(2) == 0 {
		return rowName{ServicesTable, g.serviceName()}
	}
	return rowName{SlicesTable, g.sliceName()}
}

func (g *group) service(name string) *Service {
	s := &Service{Name: name, Created: time.UnixMilli(g.Int64N(3)).UTC(), Addresses: g.addresses(g.IntN(addressCount))}
	if only := g.IntN(4); only < 2 {
		s.Addresses = s.Addresses[only : only+1]
	}
	for _, protocol := range []kernel.Protocol{kernel.TCP, kernel.UDP} {
		if g.IntN(4) > 0 {
			s.Ports = append(s.Ports, Port{protocol.String(), protocol, uint16(80 + g.IntN(2))})
		}
	}
	return s
}

func (g *group) slice(name string) *EndpointSlice {
	s := &EndpointSlice{Name: name, Service: g.serviceName()}
	for _, protocol := range []kernel.Protocol{kernel.TCP, kernel.UDP} {
		if g.IntN(6) > 0 {
			s.Ports = append(s.Ports, Port{protocol.String(), protocol, nettest.EndpointAt(0).Port()})
		}
	}
	for range g.IntN(4) {
		a := nettest.EndpointAt(g.IntN(nettest.EndpointCount)).Addr()
		ready := g.IntN(6) > 0
		leaves := !ready && g.IntN(2) == 0
		for _, a := range []netip.Addr{a, nettest.Twin(a)} {
			s.Endpoints = append(s.Endpoints, Endpoint{a, ready, ready || leaves, leaves})
		}
	}
	return s
}

// random returns a change: endpoints, or a service, come, go, or move to another address, port or service.
func (g *group) random() edit {
	c := edit{map[string]*Service{}, map[string]*EndpointSlice{}}
	kind := g.IntN(8)
	switch name := g.serviceName(); kind {
	case 0:
		c.services[name] = nil
	case 1, 2, 3:
		c.services[name] = g.service(name)
	}
	switch name := g.sliceName(); kind {
	case 3, 4, 5, 6:
		c.slices[name] = g.slice(name)
	case 7:
		c.slices[name] = nil
	}
	return c
}

// present returns the state that follows from the rows.
func (g *group) present() state {
	now := state{map[kernel.Service]*Frontend{}, map[rowName]map[kernel.Service]bool{}}
	best := map[kernel.Service]*Service{}
	for _, s := range g.services {
		var of []*EndpointSlice
		rows := []rowName{{ServicesTable, s.Name}}
		for _, slice := range g.slices {
			if slice.Service == s.Name {
				of, rows = append(of, slice), append(rows, rowName{SlicesTable, slice.Name})
			}
		}
		leads := map[kernel.Service]bool{}
		for _, row := range rows {
			now.leads[row] = leads
		}
		for _, f := range s.Frontends() {
			leads[f.At] = true
			other := best[f.At]
			if other == nil || cmp.Or(s.Created.Compare(other.Created), strings.Compare(s.Name, other.Name)) < 0 {
				f.Endpoints = endpointsOf(f, of)
				now.frontends[f.At], best[f.At] = f, s
			}
		}
	}
	return now
}

// take takes over a change, without writing it.
func (g *group) take(c edit) {
	for name, s := range c.services {
		if g.services[name] = s; s == nil {
			delete(g.services, name)
		}
	}
	for name, s := range c.slices {
		if g.slices[name] = s; s == nil {
			delete(g.slices, name)
		}
	}
	for _, row := range c.rows() {
		g.changed[row] = len(g.states)
	}
	for name, s := range g.slices {
		if g.serves[name] == nil {
			g.serves[name] = map[string]bool{}
		}
		g.serves[name][s.Service] = true
	}
	now := g.present()
	g.states = append(g.states, now)
	for at := range now.frontends {
		delete(g.orphans, at)
	}
}

// begin is called when a program is started, which does not know what earlier states have led to.
func (g *group) begin() {
	g.states = g.states[g.start:]
	for i := range g.states {
		g.states[i].leads = nil
	}
	g.start = len(g.states)
	g.changed, g.serves, g.orphans = map[rowName]int{}, map[string]map[string]bool{}, map[kernel.Service]bool{}
	for _, s := range g.states[max(0, len(g.states)-10):] {
		for at := range s.frontends {
			g.orphans[at] = true
		}
	}
	g.take(edit{})
}

// since returns the number of the state with the last change of a row.
func (g *group) since(row rowName) int { return max(g.start, g.changed[row]) }

// allows reports whether a row that is in force since its state with a number allows an answer.
func (g *group) allows(row rowName, since int, at kernel.Service, from netip.AddrPort) bool {
	// A program that has never seen a row lead to an address has no reason to wait for the address.
	leads := !slices.ContainsFunc(g.states[since:], func(s state) bool { return !s.leads[row][at] })
	if g.orphans[at] {
		// Whatever an earlier program has left is deleted before anything is in force.
		leads, since = true, g.start
	}
	for n, s := range g.states {
		if (n >= since || !leads && !s.leads[row][at]) && s.has(at, from) {
			return true
		}
	}
	return false
}

// write makes a random change of the tables.
func (g *group) write() ([]rowName, error) {
	c := g.random()
	g.take(c)
	p := g.program
	txn := p.db.WriteTxn(p.services, p.slices)
	defer txn.Abort()
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	for name, s := range c.services {
		if s == nil {
			_, _, err := p.services.Delete(txn, &Service{Name: name})
			keep(err)
		} else {
			_, _, err := p.services.Insert(txn, s)
			keep(err)
		}
	}
	for name, s := range c.slices {
		if s == nil {
			_, _, err := p.slices.Delete(txn, &EndpointSlice{Name: name})
			keep(err)
		} else {
			_, _, err := p.slices.Insert(txn, s)
			keep(err)
		}
	}
	txn.Commit()
	return c.rows(), errors.Join(errs...)
}

// loses reports whether a service has an address that another one gets in a state.
func loses(s *Service, in state) bool {
	return slices.ContainsFunc(s.Frontends(), func(f *Frontend) bool { return in.frontends[f.At].Service != s.Name })
}

// comes reports whether a row gets in force if nothing changes: it does not while it leads to a service that loses.
func (g *group) comes(row rowName) bool {
	services := map[string]bool{row.name: true}
	if row.table == SlicesTable {
		services = g.serves[row.name]
	}
	for name := range services {
		if s := g.services[name]; s != nil && loses(s, g.states[len(g.states)-1]) {
			return false
		}
	}
	return true
}

// lost reports whether a row is a service that has lost an address in all states since its last change.
func (g *group) lost(row rowName) bool {
	s := g.services[row.name]
	return s != nil && !slices.ContainsFunc(g.states[g.since(row):], func(in state) bool { return !loses(s, in) })
}

// question asks whether a row is in force.
type question struct {
	rowName
	// once: not again until it is. waits: the registry does that.
	once, waits bool
}

// ask returns true as soon as the row is in force.
func (g *group) ask(ctx context.Context, q question) (yes bool, err error) {
	g.target.first.Do(func() { close(g.target.asked) })
	for ask := g.program.registry.InForce; ; {
		if q.waits && !q.once {
			ask = g.program.registry.WaitInForce
		}
		switch f, err := ask(ctx, q.table, q.name); {
		case errors.Is(err, inspect.ErrNoReconciler): // the derivation has not begun
		case err != nil || f.Yes || q.once:
			return f.Yes, err
		case ctx.Err() != nil:
			return false, fmt.Errorf("%w: %+v", ctx.Err(), f.HeldUpBy)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// step changes something, asks about a row, and connects to what that leads to once it is in force.
func (g *group) step() error {
	q := question{rowName: g.anyRow(), waits: g.IntN(2) == 0}
	if len(g.states) > g.start+1 || g.IntN(4) == 0 {
		g.resume = g.disturb()
		defer func() { g.resume() }()
		var rows []rowName
		for len(rows) == 0 || g.IntN(3) == 0 {
			changed, err := g.write()
			if err != nil {
				return err
			}
			rows = append(rows, changed...)
		}
		if g.IntN(6) > 0 {
			q.rowName = rows[g.IntN(len(rows))]
		}
		// It may be early while all waits.
		if err := g.try(question{rowName: q.rowName, once: true}, false); err != nil {
			return err
		}
		g.resume()
	}
	q.once = !g.comes(q.rowName)
	return g.try(q, !q.once && g.IntN(4) == 0)
}

// try asks about a row, and connects. more: another change is made while the question waits.
func (g *group) try(q question, more bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), nettest.Limit)
	defer cancel()
	since, lost := g.since(q.rowName), g.lost(q.rowName)
	if !more {
		yes, err := g.ask(ctx, q)
		if err == nil && yes && lost {
			err = errors.New("it is in force although it loses")
		}
		if err == nil && yes {
			err = g.check(q.rowName, since)
		}
		return g.wrap(q, err)
	}
	type answer struct {
		yes bool
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		yes, err := g.ask(ctx, q)
		answered <- answer{yes, err}
	}()
	_, err := g.write()
	comes := g.comes(q.rowName)
	if !comes {
		cancel()
	}
	switch a := <-answered; {
	case err != nil:
		return err
	case a.err != nil && comes:
		return g.wrap(q, a.err)
	case a.yes:
		return g.wrap(q, g.check(q.rowName, since))
	}
	return nil
}

func (g *group) wrap(q question, err error) error {
	if err == nil {
		return nil
	}
	f, _ := g.program.registry.InForce(context.Background(), q.table, q.name)
	return fmt.Errorf("%s %s, %+v, now %+v: %w", q.table, q.name, q, f, err)
}

// disturb pauses the loop or the derivation, or has the loop list the kernel, at times. The pause ends with the first call
// of the function.
func (g *group) disturb() (end func()) {
	switch g.IntN(40) {
	case 0, 1:
		all := g.program.registry.All()
		if len(all) == 0 {
			break
		}
		g.paused.Add(1)
		one := all[g.IntN(len(all))]
		one.Pause()
		return sync.OnceFunc(one.Resume)
	case 2:
		g.paused.Add(1)
		g.program.loop.PauseObjects(func(f *Frontend) bool { return f.At.Protocol == kernel.TCP })
		return sync.OnceFunc(g.program.loop.Resume)
	case 3:
		g.program.loop.Resync()
	}
	return func() {}
}

// check connects to addresses that a row leads to or did before its last changes.
func (g *group) check(row rowName, since int) error {
	all := map[kernel.Service]bool{}
	for _, s := range g.states[max(g.start, since-4):] {
		maps.Copy(all, s.leads[row])
	}
	// In random order. What an earlier program has left is there at the start.
	order := slices.Concat(slices.Collect(maps.Keys(all)), slices.Collect(maps.Keys(g.orphans)))
	if len(g.states) < g.start+5 {
		slices.Reverse(order)
	}
	n := 0
	for _, at := range order {
		if at.Protocol == kernel.TCP && (at.Address.Addr().Is6() || g.IntN(4) > 0) {
			// UDP has more answers in a second. On one machine, the rejection of a first packet comes while that is still being
			// sent: for TCP of IPv6, the kernel then ignores it, and sends the next packet after a second.
			continue
		}
		if n++; n <= 3 {
			if err := g.connect(row, since, at); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return nil
	}
	g.yes.Add(1)
	if left := g.left.Add(-1); left > 0 && left%g.perFlush == 0 {
		select {
		case g.flushes <- struct{}{}:
		default:
		}
	}
	return nil
}

// connect connects to an address. The answer has to be one that a row allows which is in force since a state.
func (g *group) connect(row rowName, since int, at kernel.Service) error {
	client := netip.MustParseAddr(nettest.ClientAddress)
	if at.Address.Addr().Is6() {
		client = nettest.Twin(client)
	}
	for deadline := time.Now().Add(nettest.Limit); ; {
		port := firstPort + g.number*portCount + g.connections[at]%portCount
		g.connections[at]++
		own := netip.AddrPortFrom(client, uint16(port))
		greeting, err := nettest.Ask(context.Background(), at.Protocol.String(), at.Address, own)
		from, refused := greeting.Endpoint, errors.Is(err, unix.ECONNREFUSED)
		switch {
		case (err == nil || refused) && g.allows(row, since, at, from):
			switch {
			case refused:
				g.refused.Add(1)
			case from == at.Address:
				g.outside.Add(1)
			default:
				g.answered.Add(1)
			}
			return nil
		case !g.foreign.Load() || time.Now().After(deadline):
			return fmt.Errorf("%s is early: %s answers (%v), wanted %s", at, from, err, g.texts(at, since))
		}
		g.excused.Add(1)
		g.resume() // a pause would put the repair off
		time.Sleep(time.Millisecond)
	}
}

// texts returns what was wanted at an address.
func (g *group) texts(at kernel.Service, since int) string {
	var texts []string
	for _, s := range g.states[max(0, since-5):] {
		text := "nothing"
		if f := s.frontends[at]; f != nil {
			text = fmt.Sprintf("%s %v", f.Service, f.Endpoints)
		}
		texts = append(texts, text)
	}
	return fmt.Sprintf("the last from number %d on, before them: %s", since-max(0, since-5), strings.Join(texts, ", "))
}

// troubled is a kernel whose commits are late, refused, or lost.
type troubled struct {
	Target
	mu       sync.Mutex
	random   *rand.Rand
	commits  int
	troubles atomic.Int64
	// asked is closed at the first question: the first commit waits for that.
	asked chan struct{}
	first sync.Once
}

func (k *troubled) Commit(b *kernel.Batch) error {
	<-k.asked
	k.mu.Lock()
	k.commits++
	first, kind, late := k.commits <= 3, k.random.IntN(100), time.Duration(k.random.Int64N(int64(4*time.Millisecond)))
	k.mu.Unlock()
	switch {
	case kind == 0:
		for at := range b.Counts {
			k.troubles.Add(1)
			clear(b.Slots)
			clear(b.Counts)
			return &kernel.ElementError{Service: at, Slot: -1, Err: unix.ENFILE}
		}
	case kind == 1:
		k.troubles.Add(1)
		return cmp.Or(k.Target.Commit(b), errLost)
	case kind == 2:
		k.troubles.Add(1)
		clear(b.Slots)
		clear(b.Counts)
		return errLost
	case first || kind < 20:
		time.Sleep(late) // a question that is answered too early is answered meanwhile
	}
	return k.Target.Commit(b)
}

// prober has a network whose node runs the program, and groups whose rows are asked about.
type prober struct {
	*testing.T
	random  *rand.Rand
	network *nettest.Network
	groups  []*group
	table   *kernel.Table // to look
	program *program
	target  *troubled
	own     *kernel.Table // of the program

	// steps is locked for reading during a step.
	steps sync.RWMutex
	// foreign: another program has deleted what the kernel has, and it has not got all of it back.
	foreign atomic.Bool
	// flushes asks for such a deletion, each time when perFlush answers were checked.
	flushes  chan struct{}
	perFlush int64
	// left is how many answers are to be checked by the present program.
	left atomic.Int64

	yes, answered, refused, outside, excused, paused, troubles atomic.Int64
}

func newProber(t *testing.T) *prober {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := &prober{T: t, random: rand.New(rand.NewPCG(seed, 0)), network: nettest.NewNetwork(t)}
	p.table = openTable(t, p.network.Node)
	p.network.Node.Do(func() error {
		// So that conntrack is quick to search.
		for _, name := range []string{"udp_timeout", "udp_timeout_stream", "tcp_timeout_close", "tcp_timeout_time_wait"} {
			if err := os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_"+name, []byte("2"), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	for number := range groupCount {
		g := &group{prober: p, Rand: rand.New(rand.NewPCG(seed, uint64(1+number))), number: number,
			services: map[string]*Service{}, slices: map[string]*EndpointSlice{}, resume: func() {},
			connections: map[kernel.Service]int{}}
		for n := range addressCount {
			p.network.Outside.Do(func() error {
				lo, err := netlink.LinkByName("lo")
				for _, a := range g.addresses(n) {
					if err == nil {
						err = nettest.AddTo(lo, netip.PrefixFrom(a, a.BitLen()))
					}
				}
				return err
			})
		}
		for _, at := range g.everywhere() {
			if at.Protocol == kernel.TCP { // both
				p.network.Outside.Serve(at.Address)
			}
		}
		g.begin()
		p.groups = append(p.groups, g)
	}
	return p
}

// restart stops the program in the middle of its work, and starts another one when something else is wanted.
func (p *prober) restart() {
	p.Helper()
	if p.program != nil {
		for _, g := range p.groups {
			_, err := g.write()
			require.NoError(p, err)
		}
		p.stop()
	}
	for _, g := range p.groups {
		for range 3 {
			g.take(g.random())
		}
		g.begin()
	}
	var err error
	p.own, err = open(p.network.Node)
	require.NoError(p, err)
	p.target = &troubled{Target: p.own, random: rand.New(rand.NewPCG(p.random.Uint64(), 0)), asked: make(chan struct{})}
	p.program, err = startedProgram(context.Background(), p.target)
	require.NoError(p, err)
	for i, insert := range []func(txn statedb.WriteTxn, g *group){
		func(txn statedb.WriteTxn, g *group) {
			for _, s := range g.services {
				_, _, err := p.program.services.Insert(txn, s)
				require.NoError(p, err)
			}
		},
		func(txn statedb.WriteTxn, g *group) {
			for _, s := range g.slices {
				_, _, err := p.program.slices.Insert(txn, s)
				require.NoError(p, err)
			}
		},
	} {
		txn := p.program.db.WriteTxn(p.program.services, p.program.slices)
		for _, g := range p.groups {
			insert(txn, g)
		}
		p.program.unread[i](txn)
		txn.Commit()
	}
}

func (p *prober) stop() {
	p.Helper()
	require.NoError(p, p.program.Stop(quiet, context.Background()))
	require.NoError(p, p.own.Close())
	p.troubles.Add(p.target.troubles.Load())
}

// run checks answers of one program.
func (p *prober) run(answers int64) {
	p.Helper()
	p.left.Store(answers)
	p.flushes = make(chan struct{}, 1)
	p.perFlush = max(1, answers/3)
	failures := make(chan error, groupCount+1)
	var asking, flushing sync.WaitGroup
	for _, g := range p.groups {
		asking.Go(func() {
			failures <- p.network.Client.Try(func() (err error) {
				for err == nil && p.left.Load() > 0 {
					p.steps.RLock()
					err = g.step()
					p.steps.RUnlock()
				}
				p.left.Store(min(0, p.left.Load())) // the others end, too
				return err
			})
		})
	}
	flushing.Go(func() {
		var err error
		for range p.flushes {
			err = cmp.Or(err, p.flush())
		}
		failures <- err
	})
	asking.Wait()
	close(p.flushes)
	flushing.Wait()
	for range groupCount + 1 {
		require.NoError(p, <-failures)
	}
}

// flush has nft delete all elements of a kind while questions wait, which are answered when the kernel has them again.
func (p *prober) flush() error {
	scripts := []string{"flush ruleset", "delete table ip services",
		"flush map ip services endpoints", "flush map ip services services"}
	script := scripts[p.random.IntN(len(scripts))]
	if p.random.IntN(2) == 0 {
		script = sixth(script)
	}
	p.foreign.Store(true)
	began := time.Now()
	err := p.network.Node.Nft(script)
	p.steps.Lock()
	defer p.steps.Unlock()
	err = errors.Join(err, p.becomes())
	p.Logf("%d answers are left; %s is restored after %d ms", p.left.Load(), script, time.Since(began).Milliseconds())
	p.foreign.Store(false)
	return err
}

// becomes waits until the kernel has what is wanted now, and no more.
func (p *prober) becomes() error {
	want := kernel.NewListing()
	for _, g := range p.groups {
		for at, f := range g.states[len(g.states)-1].frontends {
			want.Counts[at] = len(f.Endpoints)
			for i, endpoint := range f.Endpoints {
				want.Slots[kernel.Slot{Service: at, Number: i}] = endpoint
			}
		}
	}
	for deadline := time.Now().Add(nettest.Limit); ; time.Sleep(time.Millisecond) {
		l, err := p.table.List()
		switch has := dumpOf(l); {
		case err == nil && maps.Equal(dumpOf(want), has):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("the kernel has %v (%v), wanted %v", has, err, dumpOf(want))
		}
	}
}

// A row that is in force is in the kernel: a client that connects as soon as the registry says so gets the answer that the
// row wants, whatever was changed, lost, paused, deleted by others, or left by an earlier program. STATEKEEL_LONG=67 checks
// 100,000 answers.
func TestRowIsInForceWhenItsClientsGetTheirAnswers(t *testing.T) {
	answers := int64(long.Times(1500))
	programs := 4 + answers/5000 // so that each is swept in a long run
	p := newProber(t)
	began := time.Now()
	for range programs {
		p.restart()
		p.run(1 + answers/programs)
	}
	require.NoError(t, p.becomes())
	p.stop()
	t.Logf("%d rows in force of %d programs in %s", p.yes.Load(), programs, time.Since(began).Round(time.Second))
	t.Logf("%d connections answered, %d refused, %d outside, %d made again after a deletion",
		p.answered.Load(), p.refused.Load(), p.outside.Load(), p.excused.Load())
	t.Logf("%d pauses, %d commits failed", p.paused.Load(), p.troubles.Load())
	require.GreaterOrEqual(t, p.yes.Load(), answers)
	for what, n := range map[string]int64{
		"answered": p.answered.Load(), "refused": p.refused.Load(), "outside": p.outside.Load(), "pauses": p.paused.Load(),
		"commits that fail": p.troubles.Load(),
	} {
		require.Positive(t, n, what)
	}
}
