// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/reconciler"
)

// zoned is an address that no packet can have.
var zoned = kernel.Service{Protocol: kernel.TCP, Address: netip.MustParseAddrPort("[fe80::1%eth0]:80")}

// started is a program with the real kernel, in the process of the test.
type started struct {
	*testing.T
	*program
	at    *nettest.Place
	other *foreign
	table *kernel.Table // to look
}

func newStarted(t *testing.T, rows ...*wish) *started {
	at := nettest.NewPlace(t)
	table := openTable(t, at)
	s := &started{T: t, at: at, other: newForeign(t, at), table: openTable(t, at)}
	var err error
	s.program, err = startedProgram(t.Context(), table)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(quiet, context.Background())) })
	s.write(rows...)
	return s
}

// write writes rows and waits until they have been attempted.
func (s *started) write(rows ...*wish) {
	s.Helper()
	require.NoError(s, s.program.write(message{Rows: rows}))
	_, err := s.wait(s.Context())
	require.NoError(s, err)
}

// errors returns why frontends are not applied, by address.
func (s *started) errors() map[string]string {
	s.Helper()
	rest, err := s.wait(s.Context())
	require.NoError(s, err)
	texts := map[string]string{}
	for _, u := range rest.Keys {
		texts[string(u.Key)] = u.Err.Error()
	}
	return texts
}

func (s *started) has(want map[string]string) {
	s.Helper()
	l, err := s.table.List()
	require.NoError(s, err)
	assert.Equal(s, want, dumpOf(l))
}

// becomes waits until the kernel has services, without another change of a row.
func (s *started) becomes(want map[string]string) {
	s.Helper()
	for deadline := time.Now().Add(nettest.Limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if l, err := s.table.List(); err == nil && assert.ObjectsAreEqual(want, dumpOf(l)) {
			break
		}
	}
	s.has(want)
	_, err := s.loop.WaitAll(s.Context(), reconciler.Applied)
	require.NoError(s, err)
}

func TestAddressThatTheKernelCannotHave(t *testing.T) {
	other := wished{netip.MustParseAddrPort("[fd00::2]:8080"), true}
	mixed, only := service("mixed", admin, 4), &wish{Name: "zoned", At: zoned, Endpoints: []wished{other}}
	mixed.Endpoints = append(mixed.Endpoints, other)
	s := newStarted(t, service("web", web, 0, 1), only, mixed, service("dns", dns, 3), service("six", six, 2))
	const why = "the address is not plain IPv4 or IPv6, or not of the family of the service"
	assert.Equal(t, map[string]string{zoned.String(): "the kernel refuses " + zoned.String() + " slot 0: " + why}, s.errors())
	want := map[string]string{
		web.String(): "2: [10.2.0.11:8080 10.2.0.12:8080]", dns.String(): "1: [10.2.0.14:8080]", admin.String(): "1: [10.2.0.15:8080]",
		six.String(): "1: [[fd00::a02:d]:8080]",
	}
	s.has(want)
	assert.Contains(t, s.loop.Explain(t.Context(), zoned.String()).String(), why)
	require.NoError(t, s.program.write(message{Gone: []string{"zoned"}}))
	s.becomes(want)
}

// The kernel refuses such a service; its row is deleted later, and the job that forgets flows must not end the program.
func TestAServiceThatWasRefusedAndIsDeletedLeavesNoFlows(t *testing.T) {
	ops := newOperations(openTable(t, nettest.NewPlace(t)))
	entry := entryOf(zoned)
	ops.ProcessRound(t.Context(), nil, nil, entry)
	require.ErrorIs(t, entry[0].Result, kernel.ErrAddress)
	ops.ProcessRound(t.Context(), nil, entry, nil)
	require.NoError(t, entry[0].Result)
	require.NotPanics(t, func() { require.NoError(t, ops.forget(t.Context())) })
}
