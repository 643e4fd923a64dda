// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package api is what the tunnel broker and its clients say to each other, as JSON over HTTP.
//
//	POST   /v1/tunnels            create a tunnel: 201; 200 and the one that exists if the name is known
//	GET    /v1/tunnels            tunnels; ?owner= and ?name= choose
//	PUT    /v1/tunnels/{id}       change the settings: 200
//	DELETE /v1/tunnels/{id}       delete: 202
//
// Reading lags behind writing: what was written a moment ago is not seen yet. Every call may be
// answered with 429 or 503, and an answer may be lost after the call has had its effect. An
// answer with Retry-After says when to try again.
//
// The paths below /admin are for tests and people. They tell and do the truth, at once:
//
//	GET    /admin/tunnels         what there really is
//	GET    /admin/audit           how often what was done, by name
//	POST   /admin/drift           change or lose a tunnel behind its owner's back
package api

// Settings are what the owner of a tunnel can choose and change.
type Settings struct {
	// Remote is the address of the other end.
	Remote string `json:"remote" yaml:"remote"`
	// Bandwidth is in Mbit/s, from 1 to MaxBandwidth.
	Bandwidth int `json:"bandwidth" yaml:"bandwidth"`
	// Left marks a tunnel that its owner left on purpose, for searches for tunnels that no row
	// wants. A row cannot ask for it.
	Left bool `json:"left,omitempty" yaml:"-"`
}

// MaxBandwidth is what the broker sells at most, in Mbit/s.
const MaxBandwidth = 10_000

// Request asks for a tunnel.
type Request struct {
	// Name is chosen by the owner, and unique: asking again with the same name creates
	// nothing.
	Name string `json:"name"`
	// Owner says whose the tunnel is.
	Owner string `json:"owner"`
	Settings
}

// Tunnel is what the broker keeps.
type Tunnel struct {
	// ID is chosen by the broker. It is never used again.
	ID string `json:"id"`
	Request
	// Address is the local end's, chosen by the broker.
	Address string `json:"address"`
}

// Audit is how often what was done to the tunnels of a name.
type Audit struct {
	// Creates is how many tunnels were created, Repeats how often one was asked for that
	// existed.
	Creates int `json:"creates"`
	Repeats int `json:"repeats"`
	Updates int `json:"updates"`
	Deletes int `json:"deletes"`
	// Lost is how many disappeared, Drifts how often one changed, behind the owner's back.
	Lost   int `json:"lost"`
	Drifts int `json:"drifts"`
}

// Drift is something that happens behind the owner's back.
type Drift struct {
	Name string `json:"name"`
	// Lose deletes the tunnel. Else Settings take the place of what it has.
	Lose bool `json:"lose,omitempty"`
	Settings
}

// Problem is the answer to a call that failed.
type Problem struct {
	Error string `json:"error"`
}
