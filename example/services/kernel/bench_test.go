// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// numbered returns the service of a number, and one of its endpoints.
func numberedService(i int) Service {
	return Service{TCP, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), 80)}
}

func numberedEndpoint(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 8080)
}

// openNew opens a table in a namespace of its own.
func openNew(t testing.TB) *Table { return openIn(t, newPlace(t)) }

// load fills a table with services of ten endpoints each.
func load(t testing.TB, table *Table, services, perBatch int) {
	b := NewBatch()
	for i := range services {
		for slot := range 10 {
			b.SetSlot(Slot{numberedService(i), slot}, numberedEndpoint(10*i+slot))
		}
		b.SetCount(numberedService(i), 10)
		if (i+1)%perBatch == 0 || i+1 == services {
			require.NoError(t, table.Commit(b))
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, perBatch := range []int{1, 10, 100, 300, 1000, 3000, 10_000} {
		b.Run(fmt.Sprintf("batch=%d", perBatch), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				table := openNew(b)
				before := memory(b)
				b.StartTimer()
				load(b, table, 10_000, perBatch)
				b.StopTimer()
				b.ReportMetric(float64(before-memory(b))/1e6, "kernelMB")
				b.StartTimer()
			}
		})
	}
}

// memory returns the memory that is available to the machine.
func memory(t testing.TB) int {
	text, err := os.ReadFile("/proc/meminfo")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	var kilobytes int
	_, err = fmt.Sscan(rest, &kilobytes)
	require.NoError(t, err)
	return kilobytes << 10
}

func BenchmarkChange(b *testing.B) {
	table := openNew(b)
	load(b, table, 10_000, 1000)
	for name, change := range map[string]func(batch *Batch, i int){
		"endpoint": func(batch *Batch, i int) {
			batch.SetSlot(Slot{numberedService(i % 10_000), i % 10}, numberedEndpoint(200_000+i))
		},
		"endpoints=100": func(batch *Batch, i int) {
			for k := range 100 {
				batch.SetSlot(Slot{numberedService((100*i + k) % 10_000), i % 10}, numberedEndpoint(200_000+i))
			}
		},
		"count": func(batch *Batch, i int) {
			service := numberedService(i / 2 % 10_000)
			if i%2 == 0 {
				batch.DeleteSlot(Slot{service, 9})
				batch.SetCount(service, 9)
			} else {
				batch.SetSlot(Slot{service, 9}, numberedEndpoint(i))
				batch.SetCount(service, 10)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			batch := NewBatch()
			for i := 0; b.Loop(); i++ {
				change(batch, i)
				began := time.Now()
				require.NoError(b, table.Commit(batch))
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			for _, p := range []int{50, 99} {
				b.ReportMetric(float64(took[len(took)*p/100].Microseconds()), fmt.Sprintf("p%d-us", p))
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	table := openNew(b)
	load(b, table, 10_000, 1000)
	b.Run("own", func(b *testing.B) {
		for b.Loop() {
			l, err := table.List()
			require.NoError(b, err)
			require.Equal(b, 10_000, len(l.Counts))
			require.Equal(b, 100_000, len(l.Slots))
		}
	})
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			all := 0
			for _, set := range sets(table.table) {
				e, err := table.conn.GetSetElements(set)
				require.NoError(b, err)
				all += len(e)
			}
			require.Equal(b, 110_121, all)
		}
	})
}

// BenchmarkDeleteFlows deletes flows that are not there, among others.
func BenchmarkDeleteFlows(b *testing.B) {
	for _, others := range []int{0, 100_000} {
		p := newPlace(b)
		table := openIn(b, p)
		p.do(func() error { return createFlows(others) })
		flows := make([]Flow, fewFlows+1)
		for i := range flows {
			flows[i] = Flow{dns, numberedEndpoint(i)}
		}
		for _, n := range []int{1, fewFlows, fewFlows + 1} {
			b.Run(fmt.Sprintf("others=%d/deleted=%d", others, n), func(b *testing.B) {
				for b.Loop() {
					require.NoError(b, table.DeleteFlows(flows[:n]...))
				}
			})
		}
	}
}

// createFlows creates flows from as many ports to a service that is translated, in the namespace of the thread.
func createFlows(n int) error {
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer h.Close()
	for i := range n {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 3, byte(i >> 14), 1}), uint16(i&(1<<14-1)+1024))
		tuple := func(from, to netip.AddrPort) netlink.IPTuple {
			return netlink.IPTuple{
				Protocol: uint8(UDP), SrcIP: from.Addr().AsSlice(), SrcPort: from.Port(), DstIP: to.Addr().AsSlice(), DstPort: to.Port(),
			}
		}
		flow := &netlink.ConntrackFlow{
			FamilyType: unix.AF_INET, TimeOut: 600, Forward: tuple(client, dns.Address), Reverse: tuple(endpointAt(0), client),
		}
		if err := h.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, flow); err != nil {
			return fmt.Errorf("create flow %d: %w", i, err)
		}
	}
	return nil
}
