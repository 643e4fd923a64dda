// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
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

// Service is an address with a port, to which clients connect.
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

// MaxSlots is how many slots a service can have.
const MaxSlots = 1 << 16

// Slot is the place of one endpoint of a service. A service with n endpoints has slots 0 to n-1.
type Slot struct {
	Service
	Number int
}

// String returns the slot as in tcp/10.96.0.1:80 slot 3.
func (s Slot) String() string { return fmt.Sprintf("%s slot %d", s.Service, s.Number) }

// fits reports whether the kernel can have an endpoint of the service, or if that is zero the service.
func (s Service) fits(endpoint netip.AddrPort) bool {
	address, to := s.Address.Addr(), endpoint.Addr()
	return isPlain(address) && (!to.IsValid() || isPlain(to) && to.BitLen() == address.BitLen())
}

// isPlain reports whether a packet can have an address as it is.
func isPlain(a netip.Addr) bool { return a.IsValid() && a.Zone() == "" && !a.Is4In6() }

// isOf reports whether the service is of a family, which has a table of its own.
func (s Service) isOf(f family) bool { return s.Address.Addr().BitLen() == int(8*f.size) }

// Table is what nftables has of services: a table of family ip, and one of family ip6. It may be used by several goroutines,
// which take turns: while one of them lists everything, no other one can commit.
type Table struct {
	mu     sync.Mutex
	conn   *nftables.Conn
	tables [len(families)]*single

	// socket is the one of conn, for what conn is not fit for. Its Flush counts on an answer for each message: after
	// a lost one it takes those of earlier messages for its own, and reports success for what failed. It cannot
	// delete what may be missing, does not say which element is refused, takes 1.5 s to list 100,000 elements, and
	// leaves out expressions of rules that it does not know.
	socket socket

	// events tell what other programs change.
	events socket

	// Flows are deleted while others commit.
	flowsMu   sync.Mutex
	flows     socket
	conntrack *netlink.Handle
}

// single is the table of one family. It uses the sockets of the whole.
type single struct {
	family
	conn   *nftables.Conn
	socket *socket
	table  *nftables.Table
	// written are the names of the chains that draw and are in the kernel. It is emptied when that may have changed.
	written map[string]bool
	// ours is set when the table was found to be of this program, or was created.
	ours bool
}

// String returns the table as nft names it, as in ip6 services.
func (t *single) String() string {
	if t.TableFamily == nftables.TableFamilyIPv6 {
		return "ip6 " + t.table.Name
	}
	return "ip " + t.table.Name
}

// Open opens the tables of a name in the network namespace of the calling thread, and keeps sockets until
// [Table.Close]. A table is created if it is missing; chains, rules and sets that are not as they should be are replaced.
// An existing table that is equal gets no write. A table of another program is an error; see [ErrTaken]. What others add to a
// table, under other names, stays.
func Open(name string) (*Table, error) {
	t := &Table{}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(t.socket.open))
	if err != nil {
		return nil, fmt.Errorf("open a socket of netfilter: %w", err)
	}
	t.conn = conn
	for i, f := range families {
		table := &nftables.Table{Name: name, Family: f.TableFamily}
		t.tables[i] = &single{family: f, conn: conn, socket: &t.socket, table: table, written: make(map[string]bool)}
	}
	if err := t.watch(); err != nil {
		return nil, errors.Join(fmt.Errorf("watch nftables: %w", err), t.Close())
	}
	if err = t.flows.dial(); err == nil {
		t.conntrack, err = netlink.NewHandle(unix.NETLINK_NETFILTER)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a socket of conntrack: %w", err), t.Close())
	}
	for _, single := range t.tables {
		if _, err := single.ensure(true, nil); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return t, nil
}

// Close closes the sockets. The tables stay, and the kernel goes on translating.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flowsMu.Lock()
	defer t.flowsMu.Unlock()
	if t.conntrack != nil {
		t.conntrack.Close()
	}
	return errors.Join(t.events.close(), t.flows.close(), t.conn.CloseLasting())
}

// ErrTaken is returned by [Open] if the chains of a table have rules, and all are of another program.
var ErrTaken = errors.New("the table is that of another program")

// patience limits how long the library waits for answers that do not come.
const patience = 10 * time.Second

// ensure makes the table have the chains for these numbers of endpoints, and if base is true the base chains and the sets. It
// reports whether it has written. Without base, it does not create the table: if another program has deleted it, the elements
// are gone, which must not remain unseen.
func (t *single) ensure(base bool, counts map[int]bool) (writes bool, err error) {
	var wanted []chain
	if base {
		wanted = t.baseChains(t.table)
	}
	draws := len(wanted) // those that follow
	for n := range counts {
		if !t.written[drawName(n)] {
			wanted = append(wanted, t.drawChain(t.table, n))
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

	if base {
		if writes, err = t.wake(); err != nil {
			return false, err
		}
	}
	have := make(map[string]found, len(wanted))
	var rules []foundRule
	for _, c := range wanted {
		f, err := t.find(c.Name)
		if err != nil {
			return false, err
		}
		have[c.Name] = f
		rules = append(rules, f.rules...)
	}
	if !t.ours && len(rules) > 0 && !slices.ContainsFunc(rules, foundRule.isOurs) {
		return false, fmt.Errorf("%w: table %s has other rules", ErrTaken, t)
	}
	changes, replaced := false, false
	if base {
		if changes, replaced, err = t.writeSets(); err != nil {
			return false, err
		}
	}
	for _, c := range wanted {
		if replaced || !c.is(have[c.Name]) {
			c.write(t.conn, have[c.Name])
			changes = true
		}
	}
	if changes {
		if err := t.conn.Flush(); err != nil {
			clear(t.written)
			return false, fmt.Errorf("write the rules of table %s: %w", t, err)
		}
	}
	for _, c := range wanted[draws:] {
		t.written[c.Name] = true
	}
	t.ours = true
	return writes || changes, nil
}

// writeSets adds the sets that the table does not have, in the transaction that the connection collects, and reports whether
// it has done so. One that is described otherwise is replaced, with its elements: then all chains must be written, since they
// lose their rules, which use it. The elements of the constant set are written again if they are not the same.
func (t *single) writeSets() (changes, replaced bool, err error) {
	var wrong []*nftables.Set
	var missing []*nftables.Set
	for _, set := range t.sets(t.table) {
		have, err := t.set(set.Name)
		fits := have.fits(set)
		if err == nil && fits && set.Name == sameSet {
			fits, err = t.hasPairs(set)
		}
		switch {
		case errors.Is(err, unix.ENOENT):
			missing = append(missing, set)
		case err != nil:
			return false, false, fmt.Errorf("read %s of table %s: %w", set.Name, t, err)
		case !fits:
			wrong, missing = append(wrong, set), append(missing, set)
		}
	}
	if len(wrong) > 0 {
		if err := t.flushChains(); err != nil {
			return false, false, err
		}
	}
	for _, set := range wrong {
		t.conn.DelSet(set)
	}
	for _, set := range missing {
		var constant []nftables.SetElement
		if set.Name == sameSet {
			constant = same()
		}
		t.conn.AddTable(t.table)
		if err := t.conn.AddSet(set, constant); err != nil {
			return false, false, fmt.Errorf("add %s to table %s: %w", set.Name, t, err)
		}
	}
	return len(missing) > 0, len(wrong) > 0, nil
}

// flushChains deletes the rules of all chains of this program, also of those that are not in use.
func (t *single) flushChains() error {
	chains, err := t.conn.ListChainsOfTableFamily(t.table.Family)
	if err != nil {
		return fmt.Errorf("list the chains of table %s: %w", t, err)
	}
	for _, c := range chains {
		isBase := slices.ContainsFunc(t.baseChains(t.table), func(b chain) bool { return b.Name == c.Name })
		if c.Table.Name == t.table.Name && (isBase || countOf(c.Name) > 0) {
			t.conn.FlushChain(c)
		}
	}
	return nil
}

// hasPairs reports whether the constant set has its elements and no others.
func (t *single) hasPairs(set *nftables.Set) (has bool, err error) {
	missing := make(map[string]bool)
	for _, pair := range same() {
		missing[string(pair.Key)] = true
	}
	others := 0
	err = t.elements(set.Name, func(e element) {
		if !missing[string(e.key)] || e.odd {
			others++
		}
		delete(missing, string(e.key))
	})
	return others == 0 && len(missing) == 0, err
}
