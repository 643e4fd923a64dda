// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package servicestest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/nettest"
	"github.com/statekeel/statekeel/internal/tests/long"
)

var healthy = regexp.MustCompile(`health +ok`)

// TestNoConnectionIsLostWhateverHappensToTheCluster changes services and pods at random, while clients connect. The program
// is killed in each round, the API server in some, and its store is compacted.
func TestNoConnectionIsLostWhateverHappensToTheCluster(t *testing.T) {
	const rounds = 10
	changes := long.Times(20)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t, seed)
	w.ready()
	w.settle()

	var stop atomic.Bool
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop.Store(true)
	for i, place := range []*nettest.Place{w.Client, w.Client, w.Node} {
		random := rand.New(rand.NewPCG(w.random.Uint64(), uint64(i)))
		clients.Go(func() {
			assert.NoError(t, place.Try(func() error {
				for !stop.Load() {
					s, protocol := w.services[random.IntN(len(w.services))], []kernel.Protocol{kernel.TCP, kernel.UDP}[random.IntN(2)]
					if err := w.connect(s, protocol, random.IntN(2) == 0); err != nil {
						return err
					}
					// Some of the processors are for those who are tested.
					time.Sleep(5 * time.Millisecond)
				}
				return nil
			}))
		})
	}

	for round := range rounds {
		killed := w.random.IntN(changes / rounds)
		for i := range changes / rounds {
			w.randomChange()
			switch {
			case i == killed && round%4 == 1:
				w.server.Kill()
				if round > 4 { // also one that starts while the API server is away
					w.kill()
					w.start()
				}
				require.NoError(t, w.server.Start())
				w.client = w.server.Client(t)
			case i == killed:
				require.NoError(t, w.server.Compact())
				w.kill()
				w.start()
			case w.random.IntN(10) == 0:
				w.settle()
			}
			require.False(t, t.Failed(), "a client has failed in round %d", round)
		}
		w.settle()
		w.ready()
		// What the one before has read of the API server may be older than all that is there now.
		w.restart()
		generation := w.Node.Generation()
		w.restart()
		assert.Equal(t, generation, w.Node.Generation(), "an equal kernel gets no write")
	}
	stop.Store(true)
	clients.Wait()
	eventually(t, func() bool { return w.inServer().equal(w.inKernel()) && healthy.MatchString(w.status()) }, func() string {
		return fmt.Sprintf("the API server wants\n%v\nthe kernel has\n%v\n%s", w.inServer(), w.inKernel(), w.status())
	})
	t.Logf("%d changes, %d connections, %d excused", changes, w.answered.Load(), w.excused.Load())
	assert.Greater(t, w.answered.Load(), int64(1000))
}
