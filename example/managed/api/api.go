// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package api defines the requests and answers of the tunnel broker, as JSON over HTTP.
//
//	POST   /v1/tunnels            create a tunnel: 201; 200 and the existing one if the name exists
//	GET    /v1/tunnels            list tunnels; ?owner= and ?name= select
//	PUT    /v1/tunnels/{id}       change the settings: 200
//	DELETE /v1/tunnels/{id}       delete a tunnel: 202
//
// Reads lag behind writes. Every call may be answered with 429 or 503, and an answer may be lost after
// the call has taken effect. Retry-After in an answer is the time to wait before the next try.
//
// The paths below /admin are for tests and people. They read and change the true state, without a
// delay:
//
//	GET    /admin/tunnels         the tunnels that exist
//	GET    /admin/audit           counts of what was done, by name
//	POST   /admin/drift           change or lose a tunnel without its owner
package api

// Settings are what the owner of a tunnel can choose and change.
type Settings struct {
	// Remote is the address of the other end.
	Remote string `json:"remote" yaml:"remote"`
	// Bandwidth is in Mbit/s, from 1 to MaxBandwidth.
	Bandwidth int `json:"bandwidth" yaml:"bandwidth"`
	// Left marks a tunnel that its owner left in place on purpose, so that resyncs keep it. A row cannot
	// set it.
	Left bool `json:"left,omitempty" yaml:"-"`
}

// MaxBandwidth is the highest bandwidth that the broker offers, in Mbit/s.
const MaxBandwidth = 10_000

// Request is a request for a tunnel.
type Request struct {
	// Name is chosen by the owner, and unique. A second request with the same name creates nothing.
	Name string `json:"name"`
	// Owner is the owner of the tunnel.
	Owner string `json:"owner"`
	Settings
}

// Tunnel is a tunnel as the broker stores it.
type Tunnel struct {
	// ID is chosen by the broker, and is never used again.
	ID string `json:"id"`
	Request
	// Address is the address of the local end, chosen by the broker.
	Address string `json:"address"`
}

// Audit counts what was done to the tunnels of a name.
type Audit struct {
	// Creates counts tunnels that were created, Repeats requests for a tunnel that existed.
	Creates int `json:"creates"`
	Repeats int `json:"repeats"`
	Updates int `json:"updates"`
	Deletes int `json:"deletes"`
	// Lost counts tunnels that disappeared, Drifts changes that their owner did not request.
	Lost   int `json:"lost"`
	Drifts int `json:"drifts"`
}

// Drift is a change that the owner did not request.
type Drift struct {
	Name string `json:"name"`
	// Lose deletes the tunnel; otherwise Settings replace its settings.
	Lose bool `json:"lose,omitempty"`
	Settings
}

// Problem is the answer to a call that failed.
type Problem struct {
	Error string `json:"error"`
}
