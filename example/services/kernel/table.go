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
// which take turns; only [Table.List] does not make others wait.
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

	// Everything is listed while others commit, too.
	dumpsMu sync.Mutex
	dumps   socket
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
	// writes counts the transactions that restored chains, rules, sets or the table.
	writes int
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
// An existing table that is equal gets no write. A table of another program is an error; see [ErrTaken]. What others add to
// a table, under other names, stays.
//
// The first versions had the table of family ip only. Open keeps it, with all its elements: it adds the other table, and
// replaces one rule of the old one, that of masquerading, in one transaction.
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
	if err = errors.Join(t.flows.dial(), t.dumps.dial()); err == nil {
		t.conntrack, err = netlink.NewHandle(unix.NETLINK_NETFILTER)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open sockets of netfilter: %w", err), t.Close())
	}
	if _, err := t.Repair(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Repair writes chains, rules and sets again that are not as they should be, as [Open] does, and reports whether there were
// any: with a set, its elements were gone. A commit waits for a few of them at most.
func (t *Table) Repair() (wrote bool, err error) {
	var errs []error
	for _, single := range t.tables {
		draws, writes, err := t.repairBase(single)
		wrote = wrote || writes
		for n := range draws {
			if err == nil {
				t.mu.Lock()
				before := single.writes
				err = single.ensure(false, map[int]bool{n: true})
				wrote = wrote || single.writes > before
				t.mu.Unlock()
			}
		}
		errs = append(errs, err)
	}
	return wrote, errors.Join(errs...)
}

// repairBase returns the numbers of the chains that draw, which remain to be looked at.
func (t *Table) repairBase(single *single) (draws map[int]bool, wrote bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(single.written)
	before := single.writes
	if err = single.ensure(true, nil); err == nil {
		draws, err = single.draws()
	}
	return draws, single.writes > before, err
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
	return errors.Join(t.events.close(), t.flows.close(), t.dumps.close(), t.conn.CloseLasting())
}

// ErrTaken is returned by [Open] if the chains of a table have rules, and all are of another program.
var ErrTaken = errors.New("the table is that of another program")

// patience limits how long the library waits for answers that do not come.
const patience = 10 * time.Second

// ensure makes the table have the chains for these numbers of endpoints, and if base is true the base chains and the sets.
// Without base, it does not create the table: if another program has deleted it, the elements are gone, which must not
// remain unseen.
func (t *single) ensure(base bool, counts map[int]bool) error {
	var wanted []chain
	if base {
		wanted = t.baseChains(t.table)
	}
	for n := range counts {
		if !t.written[drawName(n)] {
			wanted = append(wanted, t.drawChain(t.table, n))
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	// The answers that are left over belong to no later request.
	defer t.socket.drain()
	if err := t.socket.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	defer func() { _ = t.socket.conn.SetReadDeadline(time.Time{}) }()

	var wrong, missing []*nftables.Set
	if base {
		err := t.wake()
		if err == nil {
			wrong, missing, err = t.compareSets()
		}
		if err != nil {
			return err
		}
	}
	replaces := len(wrong) > 0
	if replaces {
		// A set takes along the rules that use it: they are written in the same transaction, also of chains that are not in use.
		draws, err := t.draws()
		if err != nil {
			return err
		}
		for n := range draws {
			wanted = append(wanted, t.drawChain(t.table, n))
		}
	}
	have := make(map[string]found, len(wanted))
	var rules []foundRule
	for _, c := range wanted {
		f, err := t.find(c.Name)
		if err != nil {
			return err
		}
		have[c.Name] = f
		rules = append(rules, f.rules...)
	}
	if !t.ours && len(rules) > 0 && !slices.ContainsFunc(rules, foundRule.isOurs) {
		return fmt.Errorf("%w: table %s has other rules", ErrTaken, t)
	}
	for _, c := range wanted {
		if replaces && have[c.Name].exists {
			t.conn.FlushChain(&c.Chain)
		}
	}
	if err := t.writeSets(wrong, missing); err != nil {
		return err
	}
	changes := len(missing) > 0
	for _, c := range wanted {
		if replaces || !c.is(have[c.Name]) {
			c.write(t.conn, have[c.Name])
			changes = true
		}
	}
	if changes {
		if err := t.conn.Flush(); err != nil {
			clear(t.written)
			return fmt.Errorf("write the rules of table %s: %w", t, err)
		}
		t.writes++
	}
	for _, c := range wanted {
		t.written[c.Name] = true
	}
	t.ours = true
	return nil
}

// draws returns the numbers of the chains that draw, also of those that are not in use.
func (t *single) draws() (map[int]bool, error) {
	numbers := make(map[int]bool)
	err := t.ask(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, 0, "", nil, func(a answer) error {
		data := a.data[nfHeader:]
		if n := countOf(text(data, unix.NFTA_CHAIN_NAME)); n > 0 && text(data, unix.NFTA_CHAIN_TABLE) == t.table.Name {
			numbers[n] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the chains of table %s: %w", t, err)
	}
	return numbers, nil
}

// compareSets returns the sets that are described otherwise, or if they are constant have other elements, and those that are
// to be written: these and the ones that are missing.
func (t *single) compareSets() (wrong, missing []*nftables.Set, err error) {
	for _, set := range t.sets(t.table) {
		have, err := t.set(set.Name)
		fits := have.fits(set)
		if err == nil && fits && set.Name == sameSet {
			fits, err = t.hasPairs()
		}
		switch {
		case errors.Is(err, unix.ENOENT):
			missing = append(missing, set)
		case err != nil:
			return nil, nil, fmt.Errorf("read %s of table %s: %w", set.Name, t, err)
		case !fits:
			wrong, missing = append(wrong, set), append(missing, set)
		}
	}
	return wrong, missing, nil
}

// writeSets deletes sets with their elements, and adds sets, in the transaction that the connection collects.
func (t *single) writeSets(wrong, missing []*nftables.Set) error {
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
			return fmt.Errorf("add %s to table %s: %w", set.Name, t, err)
		}
	}
	return nil
}

// hasPairs reports whether the constant set has its elements and no others.
func (t *single) hasPairs() (has bool, err error) {
	pairs, found := same(), 0
	err = get(t, sameSet, pairs, func(m *messages, pair nftables.SetElement) { m.elementKey(pair.Key) },
		func(_ nftables.SetElement, e element) {
			if !e.odd {
				found++
			}
		})
	size := 0
	if err == nil {
		size, err = t.size(sameSet)
	}
	return found == len(pairs) && size == found, err
}
