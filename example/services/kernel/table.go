// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Protocol is the number of a protocol in IP.
type Protocol uint8

// The protocols that services may have.
const (
	TCP Protocol = unix.IPPROTO_TCP
	UDP Protocol = unix.IPPROTO_UDP
)

// String returns the name of the protocol.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// Service is an IPv4 address with a port, to which clients connect.
type Service struct {
	Protocol Protocol
	Address  netip.AddrPort
}

// String returns the service as in tcp/10.96.0.1:80.
func (s Service) String() string { return fmt.Sprintf("%s/%s", s.Protocol, s.Address) }

// ParseService is the opposite of [Service.String].
func ParseService(text string) (s Service, err error) {
	protocol, address, _ := strings.Cut(text, "/")
	switch protocol {
	case "tcp":
		s.Protocol = TCP
	case "udp":
		s.Protocol = UDP
	default:
		return s, fmt.Errorf("%q does not begin with tcp/ or udp/", text)
	}
	if s.Address, err = netip.ParseAddrPort(address); err != nil {
		return s, fmt.Errorf("%q: %w", text, err)
	}
	return s, nil
}

// Slot is the place of one endpoint of a service. A service with n endpoints has slots 0 to n-1.
type Slot struct {
	Service
	Number int
}

// String returns the slot as in tcp/10.96.0.1:80 slot 3.
func (s Slot) String() string { return fmt.Sprintf("%s slot %d", s.Service, s.Number) }

// Table is a table of nftables with services. It may be used by several goroutines, which take turns: while one
// of them lists everything, no other one can commit.
type Table struct {
	mu    sync.Mutex
	conn  *nftables.Conn
	table *nftables.Table

	// socket is the one of conn, for what conn is not fit for. Its Flush counts on an answer for each message: after
	// a lost one it takes those of earlier messages for its own, and reports success for what failed. It cannot
	// delete what may be missing, does not say which element is refused, and takes 1.5 s to list 100,000 elements.
	socket socket

	// Flows are deleted while others commit.
	flowsMu   sync.Mutex
	flows     socket
	conntrack *netlink.Handle

	// written are the names of the chains that draw and are in the kernel. It is emptied when that may have changed.
	written map[string]bool
}

// Open opens the table of a name in the network namespace of the calling thread, and keeps a socket until
// [Table.Close]. The table is created if it is missing; rules that are not as they should be are replaced. An
// existing table that is equal gets no write. A table of another program is an error; see [ErrTaken].
func Open(name string) (*Table, error) {
	t := &Table{table: &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4}, written: make(map[string]bool)}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(t.socket.open))
	if err != nil {
		return nil, fmt.Errorf("open a socket of netfilter: %w", err)
	}
	t.conn = conn
	if err = t.flows.dial(); err == nil {
		t.conntrack, err = netlink.NewHandle(unix.NETLINK_NETFILTER)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a socket of conntrack: %w", err), t.Close())
	}
	if _, err := t.ensure(baseChains(t.table), nil); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close closes the sockets. The table stays, and the kernel goes on translating.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flowsMu.Lock()
	defer t.flowsMu.Unlock()
	if t.conntrack != nil {
		t.conntrack.Close()
	}
	return errors.Join(t.flows.close(), t.conn.CloseLasting())
}

// ErrTaken is returned if a chain has rules, and all are of another program.
var ErrTaken = errors.New("the table is that of another program")

// patience limits how long the library waits for answers that do not come.
const patience = 10 * time.Second

// ensure makes the table have the base chains and the chains for these numbers of endpoints. It reports whether it has
// written. Without base chains, it does not create the table: if another program has deleted it, the elements are gone,
// which must not remain unseen.
func (t *Table) ensure(base []chain, counts map[int]bool) (writes bool, err error) {
	wanted := base
	for n := range counts {
		if !t.written[drawName(n)] {
			wanted = append(wanted, drawChain(t.table, n))
		}
	}
	if len(wanted) == 0 {
		return false, nil
	}
	// The answers that are left over belong to no later request.
	defer t.socket.drain()
	if err := t.socket.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return false, err
	}
	defer func() { _ = t.socket.conn.SetReadDeadline(time.Time{}) }()

	var wrong []chain
	for _, c := range wanted {
		have, err := t.conn.GetRules(t.table, &c.Chain)
		if err != nil && strings.Contains(err.Error(), unix.EPERM.Error()) {
			err = unix.EPERM // GetRules passes on its text alone
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, fmt.Errorf("list the rules of chain %s: %w", c.Name, err)
		}
		if len(have) > 0 && !slices.ContainsFunc(have, isOurs) {
			return false, fmt.Errorf("%w: chain %s of table %s has other rules", ErrTaken, c.Name, t.table.Name)
		}
		if !c.is(have) {
			wrong = append(wrong, c)
		}
	}
	if len(base) > 0 {
		if writes, err = t.addSets(); err != nil {
			return false, err
		}
	}
	if writes = writes || len(wrong) > 0; writes {
		for _, c := range wrong {
			c.write(t.conn)
		}
		if err := t.conn.Flush(); err != nil {
			clear(t.written)
			return false, fmt.Errorf("write the rules of table %s: %w", t.table.Name, err)
		}
	}
	for _, c := range wanted[len(base):] {
		t.written[c.Name] = true
	}
	return writes, nil
}

// addSets adds the sets that the table does not have, in the transaction that the connection collects, and reports whether
// it has done so. It leaves those that are there, since the kernel accepts no other description of them, and nft describes
// the sets of a table that it restores in more detail. The elements of the constant set are written again if one is missing.
func (t *Table) addSets() (writes bool, err error) {
	for _, set := range sets(t.table) {
		var constant []nftables.SetElement
		if set.Name == sameSet {
			constant = same()
		}
		count, err := t.count(set.Name)
		switch {
		case errors.Is(err, unix.ENOENT):
			t.conn.AddTable(t.table)
			err = t.conn.AddSet(set, constant)
		case err == nil && constant != nil && count != len(constant):
			t.conn.FlushSet(set)
			err = t.conn.SetAddElements(set, constant)
		case err == nil:
			continue
		}
		if err != nil {
			return false, fmt.Errorf("add %s to table %s: %w", set.Name, t.table.Name, err)
		}
		writes = true
	}
	return writes, nil
}
