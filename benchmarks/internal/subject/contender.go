// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

// The contenders by name. A name that ends in "+inf" is the same reconciler with the limit
// on rounds per second lifted, one that ends in a number has so many workers, and one that
// ends in "+breaker" has one. One that ends in "+observed" has all mounted that shows what
// it does, and one that ends in "+bare" nothing of that. The peer has none of these.
const (
	Statekeel        = "statekeel"
	StatekeelInf     = "statekeel+inf"
	Statekeel2       = "statekeel-2"
	Statekeel4       = "statekeel-4"
	Statekeel64      = "statekeel-64"
	StatekeelBreaker = "statekeel+breaker"

	StatekeelObserved = "statekeel+observed"
	StatekeelBare     = "statekeel+bare"

	Peer    = "statedb/reconciler"
	PeerInf = "statedb/reconciler+inf"
	Floor   = "floor"
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
			Start: startStatekeel(statekeelVariant{}),
		},
		{
			Name:  StatekeelInf,
			About: "the same, with a limiter of rounds that never limits (rate.Inf) in place of its own pace",
			Start: startStatekeel(statekeelVariant{options: statekeel.unlimited()}),
		},
		{
			Name:  Statekeel2,
			About: "Statekeel with two workers, WithConcurrency(2)",
			Start: startStatekeel(withWorkers(2)),
		},
		{
			Name:  Statekeel4,
			About: "Statekeel with four workers, WithConcurrency(4)",
			Start: startStatekeel(withWorkers(4)),
		},
		{
			Name:  Statekeel64,
			About: "Statekeel with 64 workers, WithConcurrency(64)",
			Start: startStatekeel(withWorkers(64)),
		},
		{
			Name:  StatekeelBreaker,
			About: "Statekeel with a breaker that has its defaults, WithBreaker(Breaker{})",
			Start: startStatekeel(withBreaker()),
		},
		{
			Name: StatekeelObserved,
			About: "Statekeel with its journal, metrics for expvar and Prometheus, and these and the page " +
				"of package reconciler/debug served on one loopback port",
			Start: startObserved,
		},
		{
			Name:  StatekeelBare,
			About: "Statekeel without metrics and journal, WithMetrics(metrics.Discard) and WithJournal(0, 0)",
			Start: startStatekeel(bare()),
		},
		{
			Name:  Peer,
			About: "github.com/cilium/statedb/reconciler v0.8.3 with its default options",
			Start: startPeer(peerVariant{}),
		},
		{
			Name:  PeerInf,
			About: "the same, with the limit of 1000 rounds a second lifted (rate.Inf)",
			Start: startPeer(peerVariant{options: peer.unlimited()}),
		},
		{
			Name:  Floor,
			About: "a hand-written minimal loop on the same table: the practical limit of the store",
			Start: startFloor,
		},
	}
}
