// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"expvar"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// raceRound makes the names of all rounds of a process distinct.
var raceRound atomic.Int64

// Other code may publish at the same time without our lock; there is one variable in the end.
func TestPublishLosesARaceWithoutPanic(t *testing.T) {
	// expvar logs what it panics with.
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)

	for range 200 {
		name := fmt.Sprint("race_", raceRound.Add(1))
		start := make(chan struct{})
		var ours [2]*expvar.Map
		var theirs *expvar.Map
		var wg sync.WaitGroup
		for i := range ours {
			wg.Go(func() {
				<-start
				vars, err := publish(name)
				assert.NoError(t, err)
				ours[i] = vars
			})
		}
		wg.Go(func() {
			defer func() { _ = recover() }()
			<-start
			theirs = expvar.NewMap(name)
		})
		close(start)
		wg.Wait()
		assert.Same(t, expvar.Get(name), ours[0])
		assert.Same(t, ours[0], ours[1])
		if theirs != nil {
			assert.Same(t, theirs, ours[0])
		}
	}
}
