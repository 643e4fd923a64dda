// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package kernel checks Cilium v1.17.4's routes as they were released, against the kernel.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/cilium/cilium/pkg/datapath/linux/route"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// TestMain runs the tests in a network namespace of their own.
func TestMain(m *testing.M) {
	if os.Getenv("STATEKEEL_NAMESPACE") != "" {
		os.Exit(m.Run())
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), "STATEKEEL_NAMESPACE=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	device = "stable"
	table  = 100
)

// wanted is a row: a route of a prefix, of which there may be several with different priorities.
type wanted struct {
	Prefix   string
	Priority int
}

func (w *wanted) key() string    { return fmt.Sprintf("%s priority %d", w.Prefix, w.Priority) }
func (w *wanted) String() string { return w.key() }

// TableHeader and TableRow implement [statedb.TableWritable].
func (w *wanted) TableHeader() []string { return []string{"Route"} }
func (w *wanted) TableRow() []string    { return []string{w.key()} }

func newRoutes(db *statedb.DB) (statedb.RWTable[*wanted], error) {
	return statedb.NewTable(db, "routes", statedb.Index[*wanted, string]{
		Name: "key", Unique: true, FromKey: index.String, FromString: index.FromString,
		FromObject: func(w *wanted) index.KeySet { return index.NewKeySet(index.String(w.key())) },
	})
}

func (w *wanted) route() route.Route {
	_, prefix, _ := net.ParseCIDR(w.Prefix)
	return route.Route{Prefix: *prefix, Device: device, Table: table, Priority: w.Priority, Scope: netlink.SCOPE_LINK}
}

// operations call Cilium's functions.
type operations struct{}

func (operations) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, w *wanted) error {
	return route.Upsert(w.route())
}

func (operations) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, w *wanted) error {
	if err := route.Delete(w.route()); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// Prune removes the routes of the table that no row wants.
func (operations) Prune(_ context.Context, _ statedb.ReadTxn, objects iter.Seq2[*wanted, statedb.Revision]) error {
	keep := map[string]bool{}
	for w := range objects {
		keep[w.key()] = true
	}
	var errs []error
	for _, r := range routes() {
		if !keep[key(r)] {
			errs = append(errs, netlink.RouteDel(&r))
		}
	}
	return errors.Join(errs...)
}

func routes() []netlink.Route {
	found, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
	if err != nil {
		panic(err)
	}
	return found
}

func key(r netlink.Route) string { return fmt.Sprintf("%s priority %d", r.Dst, r.Priority) }

// kernel is the target: the namespace of the test.
type kernel struct{}

func newKernel(t testing.TB) kernel {
	if link, err := netlink.LinkByName(device); err == nil {
		require.NoError(t, netlink.LinkDel(link))
	}
	require.NoError(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: device}}))
	link, err := netlink.LinkByName(device)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(link))
	return kernel{}
}

func (kernel) dump() map[string]string {
	dump := map[string]string{}
	for _, r := range routes() {
		dump[key(r)] = r.Scope.String()
	}
	return dump
}

func subject(states ...[]wanted) reconcilertest.Subject[*wanted, kernel] {
	return reconcilertest.Subject[*wanted, kernel]{
		RealTime: true, Target: newKernel, Dump: kernel.dump, Table: newRoutes,
		States: func(*rand.Rand) (rows [][]*wanted) {
			for _, state := range states {
				var of []*wanted
				for _, w := range state {
					of = append(of, &w)
				}
				rows = append(rows, of)
			}
			return rows
		},
		Config: func(kernel) reconciler.Config[*wanted] {
			return reconciler.Config[*wanted]{Operations: operations{}}
		},
	}
}

// 8: cilium#40653. The deletion of a route leaves out its priority, among others: of two routes of a prefix the kernel
// deletes that which it finds first, and the stale one stays.
func TestDeletionOfARouteTakesAnother(t *testing.T) {
	s := subject(
		[]wanted{{"10.1.0.0/16", 10}, {"10.1.0.0/16", 20}},
		[]wanted{{"10.1.0.0/16", 10}},
	)
	failure := check.Expect(t, "", func() { reconcilertest.Check(t, s) })
	require.NotNil(t, failure, "no failure was found")
	t.Log(failure.Text)
	require.Contains(t, failure.Text, "has 10.1.0.0/16 priority 20")
	require.Contains(t, failure.Text, "lacks 10.1.0.0/16 priority 10")
}

// Without two routes of one prefix Cilium's functions are healthy.
func TestRoutesOfDifferentPrefixesAreHealthy(t *testing.T) {
	reconcilertest.Check(t, subject(
		[]wanted{{"10.1.0.0/16", 10}, {"10.2.0.0/16", 10}},
		[]wanted{{"10.1.0.0/16", 10}, {"10.3.0.0/16", 30}},
		[]wanted{{"10.2.0.0/16", 10}},
	))
}

// rules are the operations for policy rules with the mistake of cilium#39734, written after the report on Cilium's own rules
// functions: the deletion gives up if two rules match.
type rules struct{}

func (rules) rule(w *wanted) route.Rule {
	_, from, _ := net.ParseCIDR(w.Prefix)
	return route.Rule{Priority: 100, From: from, Table: w.Priority}
}

func (r rules) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, w *wanted) error {
	return route.ReplaceRule(r.rule(w))
}

func (r rules) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, w *wanted) error {
	rule := r.rule(w)
	found, err := route.ListRules(netlink.FAMILY_V4, &route.Rule{Priority: rule.Priority, From: rule.From})
	if err != nil || len(found) == 0 {
		return err
	}
	if len(found) > 1 {
		return errors.New("too many rules match")
	}
	return route.DeleteRule(netlink.FAMILY_V4, rule)
}

// 7: cilium#39734, rewritten. Somebody else, or an earlier run, has added a second rule that matches.
func TestTwoRulesThatMatchAreNeverDeleted(t *testing.T) {
	list := func() []netlink.Rule {
		found, err := route.ListRules(netlink.FAMILY_V4, &route.Rule{Priority: 100})
		require.NoError(t, err)
		return found
	}
	s := subject([]wanted{{"10.1.0.1/32", 11}})
	s.Target = func(testing.TB) kernel {
		for _, r := range list() {
			require.NoError(t, netlink.RuleDel(&r))
		}
		return kernel{}
	}
	s.Dump = func(kernel) map[string]string {
		dump := map[string]string{}
		for _, r := range list() {
			dump[r.String()] = "present"
		}
		return dump
	}
	s.Config = func(kernel) reconciler.Config[*wanted] { return reconciler.Config[*wanted]{Operations: rules{}} }
	s.Outside = map[string]func(kernel){"a rule is doubled with another table": func(kernel) {
		_ = route.ReplaceRule(rules{}.rule(&wanted{"10.1.0.1/32", 12}))
	}}
	failure := check.Expect(t, "", func() { reconcilertest.Check(t, s) })
	require.NotNil(t, failure, "no failure was found")
	t.Log(failure.Text)
	require.Contains(t, failure.Text, "too many rules match")
}
