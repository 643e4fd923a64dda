// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

// The names of the contenders. "+inf" lifts the limit on rounds per second, a number is the number of
// workers, "+breaker" has one breaker, "+classes" has a breaker for each class of errors, "+observed" has
// all of its observers mounted, and "+bare" has neither metrics nor journal. "+beside" has rows without a
// status. The peer has none of these except "+inf".
const (
	Statekeel        = "statekeel"
	StatekeelInf     = "statekeel+inf"
	Statekeel2       = "statekeel-2"
	Statekeel4       = "statekeel-4"
	Statekeel64      = "statekeel-64"
	Statekeel128     = "statekeel-128"
	StatekeelBreaker = "statekeel+breaker"

	StatekeelObserved = "statekeel+observed"
	StatekeelBare     = "statekeel+bare"

	StatekeelBeside  = "statekeel+beside"
	StatekeelBeside8 = "statekeel+beside-8"

	Peer    = "statedb/reconciler"
	PeerInf = "statedb/reconciler+inf"
	Floor   = "floor"

	FloorBeside = "floor+beside"

	StatekeelStepper   = "statekeel/stepper"
	StatekeelStateful  = "statekeel/stateful"
	StatekeelResources = "statekeel+resources"

	StatekeelRequest       = "statekeel/request"
	StatekeelRequest8      = "statekeel/request-8"
	StatekeelRequestAdded  = "statekeel/request+add"
	StatekeelRequestAdded8 = "statekeel/request+add-8"
	ControllerRuntime      = "controller-runtime"
	ControllerRuntime8     = "controller-runtime-8"

	StatekeelManaged  = "statekeel/managed"
	StatekeelManaged8 = "statekeel/managed-8"
	Crossplane        = "crossplane-runtime"
	Crossplane8       = "crossplane-runtime-8"
	CrossplaneCopied  = "crossplane-runtime+copied"
	CrossplaneCopied8 = "crossplane-runtime+copied-8"

	StatekeelFleet = "statekeel/fleet"
	Watchers       = "watchers"
)

// Contender is one reconciler that can be measured.
type Contender struct {
	// Name is one of the constants above.
	Name string
	// About describes it in a few words.
	About string
	// Start starts a system that the contender reconciles; nil if it is a controller.
	Start func(Options) (System, error)
	// StartController starts it as a controller; nil if it reconciles a system.
	StartController func() (Controller, error)
	// StartFleet starts it as a fleet; nil if it is none.
	StartFleet func(FleetOptions) (Fleet, error)
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
			About: "Statekeel with two workers",
			Start: startStatekeel(withWorkers(2)),
		},
		{
			Name:  Statekeel4,
			About: "Statekeel with four workers",
			Start: startStatekeel(withWorkers(4)),
		},
		{
			Name:  Statekeel64,
			About: "Statekeel with 64 workers",
			Start: startStatekeel(withWorkers(64)),
		},
		{
			Name:  Statekeel128,
			About: "Statekeel with 128 workers",
			Start: startStatekeel(withWorkers(128)),
		},
		{
			Name:  StatekeelBreaker,
			About: "Statekeel with a breaker that ten failures open, Settings.BreakerFailures = 10",
			Start: startStatekeel(withBreaker()),
		},
		{
			Name: StatekeelObserved,
			About: "Statekeel with its journal, metrics for expvar and Prometheus, and these and the page " +
				"of package reconciler/debug, all served on one loopback port",
			Start: startObserved,
		},
		{
			Name:  StatekeelBare,
			About: "Statekeel without metrics, WithMetrics(metrics.Discard)",
			Start: startStatekeel(bare()),
		},
		{
			Name: StatekeelBeside,
			About: "Statekeel on rows without a status: its outcomes are written beside the table; RegisterConfig with " +
				"its default options, a row is done when Loop.Status says so",
			Start: startBeside(statekeelVariant{}),
		},
		{
			Name:  StatekeelBeside8,
			About: "the same with eight workers",
			Start: startBeside(withWorkers(8)),
		},
		{
			Name:  Peer,
			About: "github.com/cilium/statedb/reconciler with its default options",
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
		{
			Name: FloorBeside,
			About: "a hand-written loop on rows without a status, which reads the changes and calls the operation: no " +
				"reconciler can do less",
			Start: startReader,
		},
		{
			Name:  StatekeelStepper,
			About: "Statekeel with a reconciler/stepper that walks through its states for each row",
			Start: startStepper,
		},
		{
			Name: StatekeelStateful,
			About: "Statekeel with a reconciler/stateful, on rows with a name, annotations and a set of three " +
				"strings; it stores the set that it applied last",
			Start: startStateful,
		},
		{
			Name:  StatekeelResources,
			About: "Statekeel on the same rows, with operations that store nothing",
			Start: startResources,
		},
		{
			Name: StatekeelRequest,
			About: "Statekeel's reconciler/request with its default options; its requests are those of the objects of a " +
				"table, each with an outcome that is written and kept",
			StartController: startRequests(1, true),
		},
		{
			Name:            StatekeelRequest8,
			About:           "the same with eight workers",
			StartController: startRequests(8, true),
		},
		{
			Name: StatekeelRequestAdded,
			About: "the same with requests that are added by a call and name no object: each is forgotten when its " +
				"outcome is written",
			StartController: startRequests(1, false),
		},
		{
			Name:            StatekeelRequestAdded8,
			About:           "the same with eight workers",
			StartController: startRequests(8, false),
		},
		{
			Name: ControllerRuntime,
			About: "a controller of sigs.k8s.io/controller-runtime " + kubeVersion + " with its default options and queue, and " +
				"without a manager, an API server and a logger; its source is a function that adds to the queue",
			StartController: startKube(1),
		},
		{
			Name:            ControllerRuntime8,
			About:           "the same with eight workers, MaxConcurrentReconciles 8",
			StartController: startKube(8),
		},
		{
			Name: StatekeelManaged,
			About: "Statekeel's reconciler/managed with its default options, and an external system in which all " +
				"resources are up to date",
			StartController: startManaged(1),
		},
		{
			Name:            StatekeelManaged8,
			About:           "the same with eight workers",
			StartController: startManaged(8),
		},
		{
			Name: Crossplane,
			About: "the managed reconciler of github.com/crossplane/crossplane-runtime/v2 " + crossplaneVersion + " with its default " +
				"options and the same external system, behind a controller as above; its fake client keeps nothing",
			StartController: startCrossplane(1, fakeKind()),
		},
		{
			Name:            Crossplane8,
			About:           "the same with eight workers, MaxConcurrentReconciles 8",
			StartController: startCrossplane(8, fakeKind()),
		},
		{
			Name: CrossplaneCopied,
			About: "the same with resources that are copied as generated code copies them; those of its fake package " +
				"are copied by way of JSON",
			StartController: startCrossplane(1, copiedKind()),
		},
		{
			Name:            CrossplaneCopied8,
			About:           "the same with eight workers, MaxConcurrentReconciles 8",
			StartController: startCrossplane(8, copiedKind()),
		},
		{
			Name: StatekeelFleet,
			About: "agents with Statekeel's reconciler/source/etcd, a table, and a reconciler with the ledger beside it, all with " +
				"their default options",
			StartFleet: startFleet(newFleetAgent),
		},
		{
			Name: Watchers,
			About: "go.etcd.io/etcd/client/v3 v3.6.8: a list, then a watch with RequireLeader, and a call of the operation at each " +
				"event: no agent can do less",
			StartFleet: startFleet(newWatcher),
		},
	}
}
