// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Names of the maps and sets.
const (
	endpointsMap = "endpoints"
	servicesMap  = "services"
	emptySet     = "empty"
	sameSet      = "same"
)

// layout begins the comment of every rule. Another number replaces the rules of an older program at its next
// [Open]; the maps must stay as they are, or have other names.
const layout = program + "1: "

// program begins the comment of every rule in any layout.
const program = "statekeel "

// rule is a rule with its comment. Its expressions are as the kernel returns them, so that they can be compared.
type rule struct {
	comment string
	exprs   []expr.Any
}

// chain is a chain with all its rules. It has a hook or is the target of an element of the map of services.
type chain struct {
	nftables.Chain
	rules []rule
}

// family is what differs between the tables of IPv4 and IPv6.
type family struct {
	nftables.TableFamily
	// size is that of an address, and source is where in a header that of the sender begins. The receiver's follows it.
	size, source uint32
	address      nftables.SetDatatype
	// unreachable is what a host without a listener answers by ICMP.
	unreachable uint8
}

var families = [...]family{
	{nftables.TableFamilyIPv4, 4, 12, nftables.TypeIPAddr, 3},
	{nftables.TableFamilyIPv6, 16, 8, nftables.TypeIP6Addr, 4},
}

// register returns the number of the n-th register of four bytes. The kernel calls one that begins a register of 16 bytes
// by the number of that.
func register(n uint32) uint32 {
	if n%4 == 0 {
		return unix.NFT_REG_1 + n/4
	}
	return unix.NFT_REG32_00 + n
}

// A key is loaded into the first registers: protocol, address, port, slot. What a map has for it is behind them.
const (
	keyRegister     = unix.NFT_REG_1
	addressRegister = unix.NFT_REG32_00 + 1
)

func (f family) port() uint32 { return 1 + f.size/4 }
func (f family) slot() uint32 { return f.port() + 1 }
func (f family) data() uint32 { return f.slot()/4*4 + 4 }

// baseChains returns the chains that the kernel calls.
func (f family) baseChains(table *nftables.Table) []chain {
	toService := rule{"to as many endpoints as it has", append(f.serviceKey(), &expr.Lookup{
		SourceRegister: keyRegister, SetName: servicesMap, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true,
	})}
	// A hook of NAT cannot reject, so the packets of new flows are looked up again where the kernel allows it. Those
	// that were translated have the address of an endpoint there.
	reject := rule{"a service without endpoints", slices.Concat(
		[]expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: keyRegister}}, anyBit(expr.CtStateBitNEW), f.serviceKey(),
		[]expr.Any{
			&expr.Lookup{SourceRegister: keyRegister, SetName: emptySet},
			&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: f.unreachable},
		})}
	var chains []chain
	accept := nftables.ChainPolicyAccept
	for _, base := range []struct {
		name     string
		kind     nftables.ChainType
		hook     *nftables.ChainHook
		priority *nftables.ChainPriority
		rule     rule
	}{
		{"prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest, toService},
		{"output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest, toService},
		{"postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, f.hairpin()},
		{"reject-input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter, reject},
		{"reject-forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, reject},
		{"reject-output", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter, reject},
	} {
		chains = append(chains, chain{nftables.Chain{
			Name: base.name, Table: table, Type: base.kind, Hooknum: base.hook, Priority: base.priority, Policy: &accept,
		}, []rule{base.rule}})
	}
	return chains
}

// drawName is the name of the chain that chooses one of n endpoints.
func drawName(n int) string { return drawPrefix + strconv.Itoa(n) }

const drawPrefix = "draw-"

// drawChain returns the chain that chooses one of n endpoints.
func (f family) drawChain(table *nftables.Table, n int) chain {
	address, port := register(f.data()), register(f.data()+f.size/4)
	toEndpoint := []expr.Any{
		&expr.Lookup{SourceRegister: keyRegister, SetName: endpointsMap, DestRegister: address, IsDestRegSet: true},
		&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: uint32(f.TableFamily),
			RegAddrMin: address, RegAddrMax: address, RegProtoMin: port, RegProtoMax: port, Specified: true,
		},
	}
	draw := func(n int) []expr.Any {
		numgen := &expr.Numgen{Register: register(f.slot()), Modulus: uint32(n), Type: unix.NFT_NG_RANDOM}
		return slices.Concat(f.serviceKey(), []expr.Any{numgen}, toEndpoint)
	}
	c := chain{Chain: nftables.Chain{Name: drawName(n), Table: table}}
	if n > 1 {
		c.rules = append(c.rules, rule{"to an endpoint", draw(n)})
	}
	// With one slot to choose from, this is slot 0. It is also for those whose slot was removed after they were
	// looked up.
	c.rules = append(c.rules, rule{"to the first endpoint", draw(1)})
	return c
}

// serviceKey loads the key of a service: protocol, address and port, to which the packet goes.
func (f family) serviceKey() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: keyRegister},
		&expr.Payload{
			DestRegister: addressRegister, Base: expr.PayloadBaseNetworkHeader, Offset: f.source + f.size, Len: f.size,
		},
		&expr.Payload{DestRegister: register(f.port()), Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
	}
}

// statusDNAT is the bit of a flow whose destination was translated.
const statusDNAT = 1 << 5

// halfBytes are the masks of the half bytes of four bytes of an address. The last ones differ most often.
var halfBytes = func() (masks [8][4]byte) {
	for i := range masks {
		masks[i][3-i/2] = 0x0f << (i % 2 * 4)
	}
	return masks
}()

// hairpin masquerades flows from an endpoint through a service to itself, as kube-proxy does: the endpoint would
// answer itself directly, with an address that the flow does not have. A rule cannot compare two addresses, so
// it looks up whether each half byte is the same. The kernel allows 4,095 bytes for a rule, of which IPv6
// takes nearly all: so four bytes at a time are loaded once.
func (f family) hairpin() rule {
	zero := make([]byte, 4)
	exprs := append([]expr.Any{&expr.Ct{Key: expr.CtKeySTATUS, Register: keyRegister}}, anyBit(statusDNAT)...)
	sender, receiver := register(f.data()), register(f.data()+1)
	for at := f.source + f.size - 4; at >= f.source; at -= 4 {
		exprs = append(exprs,
			&expr.Payload{DestRegister: sender, Base: expr.PayloadBaseNetworkHeader, Offset: at, Len: 4},
			&expr.Payload{DestRegister: receiver, Base: expr.PayloadBaseNetworkHeader, Offset: at + f.size, Len: 4})
		for _, mask := range halfBytes {
			exprs = append(exprs,
				&expr.Bitwise{SourceRegister: sender, DestRegister: keyRegister, Len: 4, Mask: mask[:], Xor: zero},
				&expr.Bitwise{SourceRegister: receiver, DestRegister: addressRegister, Len: 4, Mask: mask[:], Xor: zero},
				&expr.Lookup{SourceRegister: keyRegister, SetName: sameSet})
		}
	}
	return rule{"from an endpoint to itself", append(exprs, &expr.Masq{})}
}

// same returns the pairs of equal half bytes, each in its place.
func same() []nftables.SetElement {
	pairs := []nftables.SetElement{{Key: make([]byte, 8)}}
	for _, mask := range halfBytes {
		for value := byte(0x11); value != 0x10; value += 0x11 { // the same half byte twice, up to 0xff
			var half [4]byte
			for i := range half {
				half[i] = value & mask[i]
			}
			pairs = append(pairs, nftables.SetElement{Key: slices.Concat(half[:], half[:])})
		}
	}
	return pairs
}

// anyBit continues if the key's register has any of these bits.
func anyBit(bits uint32) []expr.Any {
	mask, zero := binary.NativeEndian.AppendUint32(nil, bits), make([]byte, 4)
	return []expr.Any{
		&expr.Bitwise{SourceRegister: keyRegister, DestRegister: keyRegister, Len: 4, Mask: mask, Xor: zero},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: keyRegister, Data: zero},
	}
}

// sets returns the maps and sets of a table. The type of a slot is that of marks, which nft prints in a key: it
// has no plain number of a known width there. Pairs of half bytes are of four bytes each in both families.
func (f family) sets(table *nftables.Table) []*nftables.Set {
	key := []nftables.SetDatatype{nftables.TypeInetProto, f.address, nftables.TypeInetService}
	service := nftables.MustConcatSetType(key...)
	slot := nftables.MustConcatSetType(append(key, nftables.TypeMark)...)
	endpoint := nftables.MustConcatSetType(f.address, nftables.TypeInetService)
	pair := nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr)
	// The library would number them by a variable that all connections share without a lock.
	return []*nftables.Set{
		{Table: table, ID: 1, Name: endpointsMap, IsMap: true, Concatenation: true, KeyType: slot, DataType: endpoint},
		{
			Table: table, ID: 2, Name: servicesMap, IsMap: true, Concatenation: true, KeyType: service,
			DataType: nftables.TypeVerdict,
		},
		{Table: table, ID: 3, Name: emptySet, Concatenation: true, KeyType: service},
		{Table: table, ID: 4, Name: sameSet, Concatenation: true, KeyType: pair},
	}
}

// write makes a chain have its rules, in the transaction that the connection collects. One that is there and is no such
// chain is replaced.
func (c chain) write(conn *nftables.Conn, have found) {
	if have.exists {
		conn.FlushChain(&c.Chain)
	}
	if have.exists && have.hooked != c.hooked() {
		conn.DelChain(&c.Chain)
	}
	conn.AddChain(&c.Chain)
	for _, r := range c.rules {
		conn.AddRule(&nftables.Rule{
			Table: c.Table, Chain: &c.Chain, Exprs: r.exprs,
			UserData: userdata.AppendString(nil, userdata.TypeComment, layout+r.comment),
		})
	}
}
