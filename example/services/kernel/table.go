// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
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
	socket    socket
	conntrack *netlink.Handle

	// written are the names of the chains that are in the kernel. It is emptied when that may have changed.
	written map[string]bool
}

// Open opens the table of a name in the network namespace of the calling thread, and keeps a socket until
// [Table.Close]. The table is created if it is missing; rules that are not as they should be are replaced. An
// existing table that is equal gets no write.
func Open(name string) (*Table, error) {
	t := &Table{table: &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4}, written: make(map[string]bool)}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(t.socket.open))
	if err != nil {
		return nil, fmt.Errorf("open a socket of netfilter: %w", err)
	}
	t.conn = conn
	if t.conntrack, err = netlink.NewHandle(unix.NETLINK_NETFILTER); err != nil {
		return nil, errors.Join(fmt.Errorf("open a socket of conntrack: %w", err), conn.CloseLasting())
	}
	if _, err := t.ensure(nil); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close closes the sockets. The table stays, and the kernel goes on translating.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conntrack.Close()
	return t.conn.CloseLasting()
}

// patience limits how long the library waits for answers that do not come.
const patience = 10 * time.Second

// ensure makes the table have its sets, the base chains, and the chains for these numbers of endpoints. It reports whether
// it has written. Once it has written all, it does not create the table again: somebody else has deleted it then, which
// must not remain unseen, since the elements are gone too.
func (t *Table) ensure(counts map[int]bool) (writes bool, err error) {
	var wanted []chain
	all := len(t.written) == 0
	if all {
		wanted = baseChains(t.table)
	}
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

	if all {
		if writes, err = t.addSets(); err != nil {
			return false, err
		}
	}
	for _, c := range wanted {
		have, err := t.conn.GetRules(t.table, &c.Chain)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, fmt.Errorf("list the rules of chain %s: %w", c.Name, err)
		}
		if c.is(have) {
			continue
		}
		writes = true
		c.write(t.conn)
	}
	if writes {
		if err := t.conn.Flush(); err != nil {
			clear(t.written)
			return false, fmt.Errorf("write the rules of table %s: %w", t.table.Name, err)
		}
	}
	for _, c := range wanted {
		t.written[c.Name] = true
	}
	return writes, nil
}

// addSets adds the sets that the table has not, in the transaction that the connection collects, and reports whether it has
// done so. One that is there stays: the kernel refuses to add it to those who say less about it than nft has, when that has
// restored the table. Without its elements (nft --terse), the set of pairs is filled again.
func (t *Table) addSets() (writes bool, err error) {
	for _, set := range sets(t.table) {
		var elements []nftables.SetElement
		if set.Name == sameSet {
			elements = same()
		}
		count, err := t.count(set.Name)
		switch {
		case errors.Is(err, unix.ENOENT):
			t.conn.AddTable(t.table)
			err = t.conn.AddSet(set, elements)
		case err == nil && set.Name == sameSet && count != len(elements):
			t.conn.FlushSet(set)
			err = t.conn.SetAddElements(set, elements)
		case err == nil:
			continue
		}
		if err != nil {
			return false, fmt.Errorf("add %s: %w", set.Name, err)
		}
		writes = true
	}
	return writes, nil
}
