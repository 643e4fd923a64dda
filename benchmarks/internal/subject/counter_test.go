// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestCounterSignalsAtTheGoalAndNotBefore(t *testing.T) {
	var c subject.Counter
	assert.True(t, closed(c.Reached(0)))
	reached := c.Reached(2)
	c.Add()
	assert.False(t, closed(reached))
	c.Add()
	assert.True(t, closed(reached))
	assert.True(t, closed(c.Reached(1)), "it is past")
	assert.False(t, closed(c.Reached(3)))
}

func TestCounterMissesNoGoalWithConcurrentAdds(t *testing.T) {
	const adders, each = 4, 200
	for range 50 {
		var (
			c  subject.Counter
			wg sync.WaitGroup
		)
		for range adders {
			wg.Go(func() {
				for range each {
					c.Add()
				}
			})
		}
		<-c.Reached(adders * each)
		wg.Wait()
		assert.EqualValues(t, adders*each, c.Load())
	}
}
