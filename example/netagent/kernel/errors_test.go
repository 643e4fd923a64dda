// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

// outcome names the outcome that a reconciler derives from an operation's error.
func outcome(err error) string {
	switch {
	case err == nil:
		return "Done"
	case reflect.DeepEqual(err, reconciler.TerminalError(errors.Unwrap(err))):
		return "Terminal"
	case reflect.TypeOf(err) == reflect.TypeOf(reconciler.Blocked("")):
		return "Blocked"
	}
	return "Retried"
}

func TestErrorsThatNoRetryFixesAreFinal(t *testing.T) {
	wrapped := func(errno error) error { return fmt.Errorf("add route: %w: some text", errno) }
	for want, errs := range map[string][]error{
		"Terminal": {
			unix.ENODEV, unix.EINVAL, unix.ERANGE, unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT,
			unix.EPERM, wrapped(unix.EINVAL), &fs.PathError{Op: "write", Path: "/proc/sys", Err: unix.EINVAL},
		},
		"Retried": {
			unix.EEXIST, unix.EBUSY, unix.ENOBUFS, unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.ETIMEDOUT, unix.EACCES, unix.EROFS,
			unix.ENETDOWN, unix.ENETUNREACH, unix.EHOSTUNREACH, unix.Errno(999), wrapped(unix.EBUSY),
			netlink.ErrDumpInterrupted, context.Canceled, errors.New("something else"),
		},
	} {
		for _, cause := range errs {
			err := classed(cause)
			assert.Equal(t, want, outcome(err), "%v", cause)
			assert.EqualError(t, err, cause.Error())
			assert.ErrorIs(t, err, cause)
		}
	}
	assert.NoError(t, classed(nil))
}

func TestOnlyLinksThatTheKernelRejectsAreFinal(t *testing.T) {
	f := newFixture(t)
	// With such a small MTU a link has no IPv6.
	state := f.state(`
links: [{name: a0, kind: veth, peer: a1}, {name: br0, kind: bridge, mtu: 1000}]
addresses: [{dev: a0, cidr: 10.0.0.1/24}]
routes: [{dst: 10.0.0.0/24, dev: a1}, {dst: 'fd01::/48', dev: br0}]
`)
	for _, l := range state.Links {
		require.NoError(t, update(f, f.Links, l.Spec))
	}
	require.NoError(t, update(f, f.Addresses, state.Addresses[0].Spec))
	small, misnamed := state.Links[2].Spec, state.Links[2].Spec
	small.MTU, misnamed.Name = 10, "a/b" // package config rejects both
	for _, c := range []struct {
		outcome   string
		err, want error
	}{
		{"Terminal", update(f, f.Links, small), unix.EINVAL},
		{"Terminal", update(f, f.Links, misnamed), unix.EINVAL},
		// Another program may have caused these, and may end them without notice.
		{"Retried", update(f, f.Routes, state.Routes[0].Spec), unix.EEXIST}, // the kernel has made it for the address
		{"Retried", update(f, f.Routes, state.Routes[1].Spec), unix.ENODEV},
		{"Retried", update(f, f.Addresses, config.Address{Dev: "br0", CIDR: netip.MustParsePrefix("fd01::1/64")}), unix.EINVAL},
	} {
		assert.ErrorIs(t, c.err, c.want)
		assert.Equal(t, c.outcome, outcome(c.err), "%v", c.err)
	}
}

func TestBusyIsRetried(t *testing.T) {
	f := newFixture(t)
	state := f.state("links: [{name: br0, kind: bridge}, {name: a0, kind: veth, peer: a1, master: br0, mtu: 1400}]")
	f.byHand(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a0", MTU: 1500}, PeerName: "a1"}))
	f.byHand(netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "taken", ParentIndex: f.link("a0").Attrs().Index}}))
	require.NoError(t, update(f, f.Links, state.Links[0].Spec))
	err := update(f, f.Links, state.Links[1].Spec)
	assert.ErrorIs(t, err, unix.EBUSY, "a macvlan has a0 already")
	assert.Equal(t, "Retried", outcome(err))
	assert.Equal(t, desired.UndidAddresses|desired.UndidRoutes|desired.UndidSysctls, f.effects()["a0"], "its MTU is another one already")
	f.byHand(netlink.LinkDel(f.link("taken")))
	require.NoError(t, update(f, f.Links, state.Links[1].Spec))
}

func TestLinkRemovedSinceTheLookupIsAwaited(t *testing.T) {
	f := newFixture(t)
	state := f.state(`
links: [{name: br0, kind: bridge}, {name: a0, kind: veth, peer: a1, master: br0}]
addresses: [{dev: br0, cidr: 10.0.0.1/24}]
routes: [{dst: 10.1.0.0/16, dev: br0}]
sysctls: {net.ipv4.conf.br0.rp_filter: 2}
`)
	for _, change := range []func(){
		func() { f.byHand(netlink.LinkDel(f.link("br0"))) },
		func() {
			f.byHand(netlink.LinkDel(f.link("br0")))
			f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
		},
	} {
		for _, l := range state.Links {
			require.NoError(t, update(f, f.Links, l.Spec))
		}
		f.observe()
		f.byHand(netlink.LinkSetNoMaster(f.link("a0")))
		change()
		const reason = `link "br0" is not ready`
		for _, err := range []error{
			attempt(f, f.Addresses, state.Addresses[0].Spec),
			attempt(f, f.Routes, state.Routes[0].Spec),
			attempt(f, f.Links, state.Links[1].Spec),
		} {
			assert.Equal(t, "Blocked", outcome(err), "%v", err)
			assert.EqualError(t, err, reason)
		}
		if _, err := netlink.LinkByName("br0"); err != nil {
			err = attempt(f, f.Sysctls, state.Sysctls[0].Spec)
			assert.Equal(t, "Blocked", outcome(err))
			assert.EqualError(t, err, reason)
		}
	}
}

func TestLinkDownSinceTheLookupIsAwaited(t *testing.T) {
	f := newFixture(t)
	state := f.state("links: [{name: br0, kind: bridge}]\nroutes: [{dst: 10.1.0.0/16, dev: br0}]")
	require.NoError(t, update(f, f.Links, state.Links[0].Spec))
	f.observe()
	f.byHand(netlink.LinkSetDown(f.link("br0")))
	err := attempt(f, f.Routes, state.Routes[0].Spec)
	assert.Equal(t, "Blocked", outcome(err), "%v", err)
}

func TestLinkCreatedByAnotherProgramIsUsed(t *testing.T) {
	f := newFixture(t)
	ops := f.Links.(*links)
	want := f.state("links: [{name: br0, kind: bridge, mtu: 1400}]").Links[0].Spec
	f.byHand(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}))
	there := f.link("br0")

	_, err := ops.create(nil, want)
	assert.ErrorIs(t, err, unix.EEXIST, "the link was created after the look-up")
	assert.Equal(t, "Retried", outcome(err))

	f.byHand(netlink.LinkDel(there))
	_, err = ops.configure(f.in.DB.ReadTxn(), there, want)
	assert.ErrorIs(t, err, unix.ENODEV, "the link was removed after the look-up")
	assert.Equal(t, "Retried", outcome(err))
}
