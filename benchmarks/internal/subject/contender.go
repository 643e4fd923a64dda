// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

// The contenders by name. A name that ends in "+inf" is the same reconciler with the limit
// on rounds per second lifted.
const (
	Statekeel    = "statekeel"
	StatekeelInf = "statekeel+inf"
	Peer         = "statedb/reconciler"
	PeerInf      = "statedb/reconciler+inf"
	Floor        = "floor"
)

// Contender is one reconciler that can be measured.
type Contender struct {
	// Name is one of the constants above.
	Name string
	// About says in a few words what it is.
	About string
	// Start starts a system that the contender reconciles.
	Start func(Options) (System, error)
}

// Contenders returns all contenders, in the order in which they are shown and run.
func Contenders() []Contender {
	return []Contender{
		{
			Name:  Statekeel,
			About: "github.com/statekeel/statekeel/reconciler with its default options",
			Start: func(o Options) (System, error) { return statekeel.start(o, false) },
		},
		{
			Name:  StatekeelInf,
			About: "the same, with a limiter of rounds that never limits (rate.Inf) in place of its own pace",
			Start: func(o Options) (System, error) { return statekeel.start(o, true) },
		},
		{
			Name:  Peer,
			About: "github.com/cilium/statedb/reconciler v0.8.3 with its default options",
			Start: func(o Options) (System, error) { return peer.start(o, false) },
		},
		{
			Name:  PeerInf,
			About: "the same, with the limit of 1000 rounds a second lifted (rate.Inf)",
			Start: func(o Options) (System, error) { return peer.start(o, true) },
		},
		{
			Name:  Floor,
			About: "a hand-written minimal loop on the same table: the practical limit of the store",
			Start: startFloor,
		},
	}
}
