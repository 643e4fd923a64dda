// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"time"
)

// Breaker says when a target counts as down, and what is done then: see [WithBreaker].
// When Failures different objects have failed one after another, with no success in
// between, the breaker opens: everything is held back but a few probes, so that a
// target that is down costs next to nothing, however many objects wait for it, and is not
// hit by all of them while it gets up. The first operation that succeeds closes it, and
// everything that it held, and every retry that waits for its backoff, is due at once. A
// terminal failure, also one of a deletion, which is retried, and a blocked object say nothing of
// the target. Failures are counted when a round is over, so that one more round may fail before
// the breaker opens. Zero fields mean the defaults.
type Breaker struct {
	// Failures is the number of different objects that have to fail one after another.
	// The default is 10.
	Failures int
	// Probes is how many operations are let through at a time. The default is 2.
	Probes int
	// MinInterval is the time from the breaker's opening to the first probes, which
	// doubles with every further ones that fail until it is MaxInterval. If too few
	// objects are due then, others are probed with before their backoff is over. The
	// defaults are 100 ms and a second, or what is set of the other if that leaves
	// MinInterval no larger.
	MinInterval, MaxInterval time.Duration
	// ByClass makes for a breaker for each class of errors, as [Config].ErrorClass tells
	// them apart. An open breaker then holds the objects that failed with an error of its
	// class last, and probes with some of them; new and changed objects are tried. Errors of
	// the empty class count for no breaker. False means one breaker that counts all errors and
	// holds all objects.
	ByClass bool
}

// withDefaults returns the breaker with the defaults in place of zeros.
func (b Breaker) withDefaults() Breaker {
	if b.Failures == 0 {
		b.Failures = 10
	}
	if b.Probes == 0 {
		b.Probes = 2
	}
	if b.MinInterval == 0 {
		b.MinInterval = 100 * time.Millisecond
		if b.MaxInterval > 0 {
			b.MinInterval = min(b.MinInterval, b.MaxInterval)
		}
	}
	if b.MaxInterval == 0 {
		b.MaxInterval = max(time.Second, b.MinInterval)
	}
	return b
}

func (b Breaker) validate() error {
	var errs []error
	if b.Failures < 0 {
		errs = append(errs, fmt.Errorf("WithBreaker: Failures is %d, must not be negative", b.Failures))
	}
	if b.Probes < 0 {
		errs = append(errs, fmt.Errorf("WithBreaker: Probes is %d, must not be negative", b.Probes))
	}
	if b.MinInterval < 0 || b.MaxInterval < 0 {
		errs = append(errs, fmt.Errorf("WithBreaker: MinInterval is %s and MaxInterval is %s, neither may be negative", b.MinInterval, b.MaxInterval))
	} else if b := b.withDefaults(); b.MinInterval > b.MaxInterval {
		errs = append(errs, fmt.Errorf("WithBreaker: MinInterval %s is above MaxInterval %s", b.MinInterval, b.MaxInterval))
	}
	return errors.Join(errs...)
}
