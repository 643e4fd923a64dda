// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"sync"

	"github.com/cilium/statedb"
)

// progress publishes how far a reconciler has come, for others to wait for.
type progress struct {
	mu           sync.Mutex
	revision     statedb.Revision
	lowWatermark statedb.Revision
	// moved is closed at the next change; nil while nobody waits.
	moved chan struct{}
}

// publish sets the revision up to which every change has been attempted, which never
// goes back, and the low watermark. ran: some operations have ended since.
func (p *progress) publish(revision, lowWatermark statedb.Revision, ran bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	revision = max(revision, p.revision)
	if revision == p.revision && lowWatermark == p.lowWatermark && !ran {
		return
	}
	p.revision, p.lowWatermark = revision, lowWatermark
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// wait blocks until the revision is reached or ctx ends, and returns the revision and
// the low watermark then.
func (p *progress) wait(ctx context.Context, until statedb.Revision) (statedb.Revision, statedb.Revision, error) {
	for {
		p.mu.Lock()
		revision, lowWatermark := p.revision, p.lowWatermark
		if revision >= until {
			p.mu.Unlock()
			return revision, lowWatermark, nil
		}
		if p.moved == nil {
			p.moved = make(chan struct{})
		}
		moved := p.moved
		p.mu.Unlock()

		select {
		case <-ctx.Done():
			return revision, lowWatermark, ctx.Err()
		case <-moved:
		}
	}
}
