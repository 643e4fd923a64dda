// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/statekeel/statekeel/example/managed/api"
)

// Faults are the probabilities, from 0 to 1, that a call of the owner's API goes wrong. Their sum is at
// most 1. The zero value is a broker without faults.
type Faults struct {
	// Unavailable calls are answered with 503, and have no effect.
	Unavailable float64
	// Busy calls are answered with 429 and Retry-After, and have no effect.
	Busy float64
	// Slow calls take SlowBy longer.
	Slow   float64
	SlowBy time.Duration
	// Reset calls take effect, but the connection is reset before the answer.
	Reset float64
	// Seed selects the calls: the same seed gives the same faults for the same calls.
	Seed uint64
}

// retryAfter is the Retry-After of a busy broker, in seconds. One is the minimum that HTTP can express.
const retryAfter = 1

// Validate returns an error that names everything that is wrong with the faults.
func (f Faults) Validate() error {
	var errs []error
	sum := 0.0
	for _, p := range []struct {
		name  string
		value float64
	}{{"Faults.Unavailable", f.Unavailable}, {"Faults.Busy", f.Busy}, {"Faults.Slow", f.Slow}, {"Faults.Reset", f.Reset}} {
		if !(p.value >= 0 && p.value <= 1) {
			errs = append(errs, fmt.Errorf("%s is %v, must be from 0 to 1", p.name, p.value))
		}
		sum += p.value
	}
	if sum > 1 {
		errs = append(errs, fmt.Errorf("the faults add up to %v, must be at most 1", sum))
	}
	if f.SlowBy < 0 {
		errs = append(errs, fmt.Errorf("Faults.SlowBy is %s, must not be negative", f.SlowBy))
	}
	return errors.Join(errs...)
}

// faulty is a handler that fails at random.
type faulty struct {
	faults Faults
	next   http.Handler

	mu     sync.Mutex
	random *rand.Rand
}

func newFaulty(faults Faults, next http.Handler) *faulty {
	return &faulty{faults: faults, next: next, random: rand.New(rand.NewPCG(faults.Seed, 0))}
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := f.draw()
	// below reports whether the draw falls on a fault. If not, it subtracts the probability from the
	// draw.
	below := func(probability float64) bool {
		hit := p < probability
		p -= probability
		return hit
	}
	switch {
	case below(f.faults.Unavailable):
		answer(w, http.StatusServiceUnavailable, api.Problem{Error: "the broker is out of order"})
	case below(f.faults.Busy):
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		answer(w, http.StatusTooManyRequests, api.Problem{Error: "the broker is busy"})
	case below(f.faults.Reset):
		f.next.ServeHTTP(httptest.NewRecorder(), r)
		reset(w)
	case below(f.faults.Slow):
		select {
		case <-time.After(f.faults.SlowBy):
		case <-r.Context().Done():
		}
		f.next.ServeHTTP(w, r)
	default:
		f.next.ServeHTTP(w, r)
	}
}

// draw returns a number from 0 to 1.
func (f *faulty) draw() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.Float64()
}

// reset resets the connection of a call.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// The server closes the connection of a handler that panics with this.
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a reset, not an orderly end
	}
	_ = conn.Close()
}
