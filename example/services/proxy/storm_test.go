// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/kernel"
)

// noCommits is a fake kernel that can be listed, and whose commits fail.
type noCommits struct {
	*fake
	fails          atomic.Bool
	tries, listing atomic.Int64
}

func (k *noCommits) Commit(b *kernel.Batch) error {
	if k.fails.Load() {
		k.tries.Add(1)
		return errLost
	}
	return k.fake.Commit(b)
}

func (k *noCommits) List() (kernel.Listing, error) {
	k.listing.Add(1)
	return k.fake.List()
}

// While commits fail for an hour, listings are few; then all is as wanted.
func TestListingsAreFewWhileCommitsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rows = 100
		k := &noCommits{fake: newFake()}
		p, err := startedProgram(t.Context(), k)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Stop(quiet, context.Background())) }()
		m, gone := message{}, message{}
		for i := range rows {
			at := kernel.Service{Protocol: kernel.UDP, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 3, byte(i)}), uint16(53+i/256))}
			m.Rows = append(m.Rows, service(fmt.Sprint("s", i), at, 0, 1, 2))
		}
		require.NoError(t, p.write(m))
		time.Sleep(time.Minute)
		require.Len(t, k.list().Counts, rows)
		k.fails.Store(true)
		before := k.listing.Load()
		for i, row := range m.Rows {
			if i%2 == 0 {
				gone.Gone = append(gone.Gone, row.Name)
				require.NoError(t, p.write(message{Gone: []string{row.Name}}))
			} else {
				require.NoError(t, p.write(message{Rows: []*Service{service(row.Name, row.At, 1)}}))
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		listings, tries := k.listing.Load()-before, k.tries.Load()
		t.Logf("%d listings, %d commits that fail", listings, tries)
		k.fails.Store(false)
		time.Sleep(10 * time.Minute)
		require.Len(t, k.list().Counts, rows/2)
		require.Len(t, k.list().Slots, rows/2)
		require.Greater(t, tries, int64(1000))
		require.LessOrEqual(t, listings, int64((time.Hour+rows*time.Second)/resyncPause)+1)
	})
}

// A plan reads the kernel, and the operations know as much as before: nothing is repaired, and nothing is listed again.
func TestPlanTeachesTheOperationsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &noCommits{fake: newFake()}
		p, err := startedProgram(t.Context(), k)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Stop(quiet, context.Background())) }()
		require.NoError(t, p.write(message{Rows: []*Service{service("web", web, 0, 1)}}))
		time.Sleep(time.Minute)
		slot := kernel.Slot{Service: web, Number: 0}
		k.outside(func() { k.slots[slot] = elsewhere })
		before := k.listing.Load()
		plan, err := p.loop.Plan(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, plan.Different)
		require.Contains(t, plan.Differences[0].Diff, elsewhere.String())
		time.Sleep(time.Minute)
		require.Equal(t, elsewhere, k.list().Slots[slot])
		require.Equal(t, before+1, k.listing.Load())
	})
}
