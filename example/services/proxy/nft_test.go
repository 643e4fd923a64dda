// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/internal/tests/long"
)

// vandal is another program that changes everything in a namespace by nft, while the program of this package keeps its
// table there.
type vandal struct {
	*testing.T
	*rand.Rand
	at *nettest.Place
	// mirror is a namespace with what the vandal has for itself, and without the program.
	mirror *nettest.Place
	*program
	table    *kernel.Table
	rows     map[string]*wish
	accepted int
	last     []string
}

func (v *vandal) Helper() { v.T.Helper() }

func one[T any](v *vandal, of ...T) T { return of[v.IntN(len(of))] }

// The names of the program in its table, except draw-1 and so on.
var (
	baseNames = []string{"prerouting", "output", "postrouting", "reject-input", "reject-forward", "reject-output"}
	setNames  = []string{"endpoints", "services", "empty", "same"}
)

func isDraw(name string) bool { return strings.HasPrefix(name, "draw-") }

// isOurs reports whether an object is of the program.
func isOurs(o nettest.Object) bool {
	return (o.Family == "ip" || o.Family == "ip6") && o.Table == "services" && (o.Kind == "table" || isDraw(o.Name) ||
		slices.Contains(baseNames, o.Name) || slices.Contains(setNames, o.Name))
}

func (v *vandal) draw() string { return fmt.Sprint("draw-", 1+v.IntN(5)) }

func (v *vandal) chain() string {
	return one(v, append(slices.Clone(baseNames), v.draw(), v.draw())...)
}

func (v *vandal) key() string {
	return fmt.Sprintf("%s . 10.96.0.%d . %d", one(v, "tcp", "tcp", "udp", "sctp"), v.IntN(6), one(v, 80, 80, 81))
}

func (v *vandal) hook() string {
	return fmt.Sprintf("{ type %s priority %d; policy %s; }",
		one(v, "filter hook input", "filter hook forward", "filter hook output", "nat hook prerouting", "nat hook output", "nat hook postrouting"),
		one(v, -100, 0, 5, 100), one(v, "accept", "drop"))
}

func (v *vandal) statement() string {
	return one(v, "accept", "drop", "counter", "ip daddr 10.96.0.1 drop", "meta l4proto . ip daddr . th dport vmap @services",
		"meta l4proto . ip daddr . th dport @empty drop", "ct state new limit rate 1/day accept") +
		one(v, "", ` comment "statekeel 1: to an endpoint"`, ` comment "statekeel 1: to as many endpoints as it has"`,
			` comment "statekeel 1: a service without endpoints"`)
}

func (v *vandal) element() string {
	switch v.IntN(4) {
	case 0:
		return fmt.Sprintf("endpoints { %s . %d : 10.2.0.%d . 8080 }", v.key(), one(v, 0, 1, 2, 3, 9, 70000, 4294967295), 11+v.IntN(10))
	case 1:
		return fmt.Sprintf("services { %s : %s }", one(v, v.key(), v.key(), "*"), one(v, "goto "+v.draw(), "jump "+v.draw(), "drop", "accept"))
	case 2:
		return fmt.Sprintf("empty { %s }", one(v, v.key(), v.key(), "*"))
	}
	return fmt.Sprintf("same { 1.2.3.%d . 1.2.3.%d }", v.IntN(9), v.IntN(9))
}

// set returns a set of the program that is described otherwise.
func (v *vandal) set() string {
	key := one(v, "inet_proto . ipv4_addr . inet_service", "ipv4_addr", "inet_proto . ipv4_addr . inet_service . mark", "ipv4_addr . ipv4_addr")
	return fmt.Sprintf("%s { type %s; %s }", one(v, setNames...), key,
		one(v, "", "size 20;", "timeout 1d;", "flags interval;", "flags constant;", "flags dynamic, timeout; timeout 2s;", "limit rate 1/day;"))
}

// change returns a script that changes what is the program's, in one of its tables, and what it does to what the vandal has.
func (v *vandal) change() (script, shared string) {
	if script, shared = v.change4(); v.IntN(2) == 0 {
		return sixth(script), sixth(shared)
	}
	return script, shared
}

var address = regexp.MustCompile(`\b10\.[0-9.]+`)

// sixth returns a script that does to the table of IPv6 what another one does to that of IPv4, and the other way round.
func sixth(script string) string {
	script = strings.NewReplacer("ip services", "ip6 services", "ip6 services", "ip services", "ip daddr", "ip6 daddr", "ipv4_addr", "ipv6_addr").Replace(script)
	return address.ReplaceAllStringFunc(script, func(a string) string { return nettest.Twin(netip.MustParseAddr(a)).String() })
}

func (v *vandal) change4() (script, shared string) {
	const flush = "flush table ip services"
	chain, set := v.chain(), one(v, setNames...)
	switch v.IntN(16) {
	case 0:
		return fmt.Sprintf("add chain ip services %s { policy drop; }", one(v, baseNames...)), ""
	case 1:
		return fmt.Sprintf("%s rule ip services %s %s", one(v, "add", "insert"), chain, v.statement()), ""
	case 2, 3:
		return v.replace(), ""
	case 4:
		return "flush chain ip services " + chain, ""
	case 5, 6:
		return fmt.Sprintf("flush chain ip services %[1]s; delete chain ip services %[1]s; add chain ip services %[1]s %[2]s; add rule ip services %[1]s %[3]s",
			chain, one(v, "", v.hook()), v.statement()), ""
	case 7:
		return fmt.Sprintf("flush map ip services services; flush chain ip services %[1]s; delete chain ip services %[1]s", chain), ""
	case 8:
		return "add table ip services { flags dormant; }", ""
	case 9:
		return fmt.Sprintf("flush %s ip services %s", one(v, "set", "map"), set), ""
	case 10:
		s := v.set()
		name, _, _ := strings.Cut(s, " ")
		script := "; delete %s ip services %s; add set ip services %s"
		return flush + fmt.Sprintf(script, one(v, "set", "map"), name, s), flush
	case 11, 12:
		return "add element ip services " + v.element(), ""
	case 13:
		return "delete element ip services " + v.element(), ""
	case 14:
		script := one(v, flush, "delete table ip services; add table ip services", "flush ruleset; add table ip services; add table ip6 services")
		return script, script
	}
	return "add chain ip services " + chain + " " + v.hook(), ""
}

// replace returns a script that changes or deletes a rule that is there.
func (v *vandal) replace() string {
	var printed struct {
		Nftables []struct {
			Rule struct {
				Family, Table, Chain string
				Handle               int
			}
		}
	}
	if v.at.IsDormant("ip services") || v.at.IsDormant("ip6 services") {
		return "flush chain ip services output"
	}
	v.at.NftList(&printed)
	var scripts []string
	for _, each := range printed.Nftables {
		if r := each.Rule; r.Family == "ip" && r.Table == "services" && isOurs(nettest.Object{Family: "ip", Table: "services", Name: r.Chain}) {
			scripts = append(scripts, fmt.Sprintf("delete rule ip services %s handle %d", r.Chain, r.Handle),
				fmt.Sprintf("replace rule ip services %s handle %d %s", r.Chain, r.Handle, v.statement()))
		}
	}
	return one(v, append(scripts, "flush chain ip services output")...)
}

// own returns a script that changes what the vandal has for itself: in other tables, and under other names in the program's.
func (v *vandal) own() string {
	table := one(v, "ip foreign", "inet services", "ip6 services", "ip services")
	chain := table + " " + one(v, "other", "another")
	if !strings.HasPrefix(table, "ip") || table == "ip foreign" {
		chain = table + " " + one(v, "draw-2", "output")
	}
	set := table + " theirs"
	v.both("add table " + table) // on its own, since the kernel refuses a hook in a transaction that wakes the table
	return one(v,
		"add chain "+chain,
		"add chain "+chain+" { type filter hook output priority 7; policy accept; }",
		"add chain "+chain+"; add rule "+chain+" meta mark 7 counter",
		"flush chain "+chain,
		"delete chain "+chain,
		"add set "+set+" { type ipv4_addr; }",
		"add set "+set+" { type ipv4_addr; }; add element "+set+fmt.Sprintf(" { 10.0.0.%d }", v.IntN(9)),
		"delete set "+set,
	)
}

// both runs a script in the namespace and in the mirror.
func (v *vandal) both(script string) {
	v.Helper()
	err, mirrored := v.nft(script), v.mirror.Nft(script)
	require.Equal(v, err == nil, mirrored == nil, "%s: %v, but %v", script, err, mirrored)
}

func (v *vandal) nft(script string) error {
	err := v.at.Nft(script)
	if err == nil {
		v.accepted++
		v.last = append(v.last, script)
	}
	return err
}

// step does something at random.
func (v *vandal) step() {
	v.Helper()
	switch v.IntN(12) {
	case 0, 1, 2:
		name := fmt.Sprint("service-", v.IntN(6))
		m := message{Gone: []string{name}}
		if delete(v.rows, name); v.IntN(4) > 0 {
			var number byte
			_, err := fmt.Sscanf(name, "service-%d", &number)
			require.NoError(v, err)
			at := kernel.Service{Protocol: []kernel.Protocol{kernel.TCP, kernel.UDP}[number%2], Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, number}), 80)}
			if number >= 3 {
				at = twin(at)
			}
			v.rows[name] = service(name, at, v.Perm(9)[:v.IntN(6)]...)
			m = message{Rows: []*wish{v.rows[name]}}
		}
		require.NoError(v, v.write(m))
	case 3, 4:
		v.both(v.own())
	case 5:
		v.loop.Resync()
	case 6:
		if v.IntN(4) == 0 {
			v.restart()
		}
	default:
		script, shared := v.change()
		if err := v.nft(script); err == nil && shared != "" { // it may be refused
			require.NoError(v, v.mirror.Nft(shared))
		}
	}
}

// restart ends the program, if it runs, and starts another one.
func (v *vandal) restart() {
	v.Helper()
	if v.program != nil {
		require.NoError(v, v.Stop(quiet, context.Background()))
		require.NoError(v, v.table.Close())
	}
	err := errors.New("not open")
	for range 2 {
		if v.table, err = open(v.at); !errors.Is(err, kernel.ErrTaken) {
			break
		}
		for _, table := range []string{"ip services", "ip6 services"} {
			v.both(fmt.Sprintf("add table %[1]s; delete table %[1]s; add table %[1]s", table)) // as a person would
		}
	}
	require.NoError(v, err)
	v.program, err = startedProgram(context.Background(), v.table)
	require.NoError(v, err)
	m := message{}
	for _, row := range v.rows {
		m.Rows = append(m.Rows, row)
	}
	require.NoError(v, v.write(m))
}

// wanted returns what the namespace has to have.
func (v *vandal) wanted() []nettest.Object {
	v.Helper()
	reference := nettest.NewPlace(v)
	table := openTable(v, reference)
	b := kernel.NewBatch()
	for _, row := range v.rows {
		b.SetCount(row.At, len(row.ready()))
		for i, endpoint := range row.ready() {
			b.SetSlot(kernel.Slot{Service: row.At, Number: i}, endpoint)
		}
	}
	require.NoError(v, table.Commit(b))
	theirs := slices.DeleteFunc(v.mirror.Ruleset(), isOurs)
	return append(theirs, v.normal(reference.Ruleset())...)
}

// normal leaves out which endpoint has which slot, and chains that no service uses.
func (v *vandal) normal(all []nettest.Object) (normal []nettest.Object) {
	v.Helper()
	used := map[string]bool{}
	for _, o := range all {
		if o.Kind == "element" && isOurs(o) && o.Name == "services" {
			_, target, _ := strings.Cut(o.Text, `{"target":"`)
			name, _, _ := strings.Cut(target, `"`)
			used[o.Family+name] = true
		}
	}
	for _, o := range all {
		switch {
		case isOurs(o) && isDraw(o.Name) && !used[o.Family+o.Name]:
		case isOurs(o) && o.Kind == "element" && o.Name == "endpoints":
			slot, endpoint, _ := strings.Cut(o.Text, "]},")
			comma := strings.LastIndex(slot, ",")
			require.Positive(v, comma, o.Text)
			o.Text = slot
			normal = append(normal, o)
			o.Text = slot[:comma] + endpoint
			fallthrough
		default:
			normal = append(normal, o)
		}
	}
	return normal
}

// settle waits until the namespace has what it has to have, and checks that the program is at rest then.
func (v *vandal) settle() {
	v.Helper()
	wanted := v.wanted()
	for deadline := time.Now().Add(nettest.Limit); ; time.Sleep(10 * time.Millisecond) {
		v.loop.Resync()
		_, err := v.wait(context.Background())
		require.NoError(v, err)
		missing, added := nettest.Changes(wanted, v.normal(v.at.Ruleset()))
		if len(missing)+len(added) == 0 {
			break
		}
		if time.Now().After(deadline) {
			_, err := v.table.List()
			require.Fail(v, "the ruleset is not as wanted", "missing: %v\nadded: %v\na listing: %v\n%s", missing, added, err, strings.Join(v.last, "\n"))
		}
	}
	v.last = nil
	_, err := v.table.List()
	require.NoError(v, err)
	generation := v.at.Generation()
	v.loop.Resync()
	_, err = v.wait(context.Background())
	require.NoError(v, err)
	_, err = v.table.List()
	require.NoError(v, err)
	require.Equal(v, generation, v.at.Generation(), "an equal table gets no write")
}

// Another program does to the table whatever nft can say. At the end what is the program's is as wanted, and what is the
// other's is untouched.
func TestTableIsRestoredWhateverNftDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	v := &vandal{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), at: nettest.NewPlace(t), mirror: nettest.NewPlace(t), rows: map[string]*wish{}}
	v.restart()
	defer func() {
		require.NoError(t, v.Stop(quiet, context.Background()))
		require.NoError(t, v.table.Close())
	}()
	require.NoError(t, v.mirror.Nft("add table ip services; add table ip6 services"))
	rounds := long.Times(8)
	for range rounds {
		for range 1 + v.IntN(20) {
			v.step()
		}
		v.settle()
	}
	t.Logf("%d scripts were accepted", v.accepted)
	require.Greater(t, v.accepted, 2*rounds)
}
