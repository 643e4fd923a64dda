// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package dropin checks that a program written against github.com/cilium/statedb/reconciler v0.9.4 (the peer)
// behaves the same when only its import path changes to github.com/statekeel/statekeel/reconciler.
//
// The programs are in the folder programs. The tests run them twice: as written, and with the import path
// changed in a copy (an overlay of "go test": the module itself is not changed). They fail if a run fails or
// if the transcripts differ. Another test checks that the programs use each exported name, so each one exists in
// both packages, with types that programs can use in the same way.
//
// The peer's own external tests run with the path changed, too, from the source in the module cache.
//
// Where Statekeel differs on purpose, the programs assert only what holds on both sides:
//
//	what                        v0.9.4                              Statekeel
//	first retry                 after 2 x the minimum backoff       after the minimum
//	retries                     exact                               up to a tenth earlier (jitter)
//	retries of batches          one by one, by single operations    in batches
//	the same failure again      rewrites the row, wakes watchers    writes nothing
//	change of a failing object  tried at once, backoff forgotten    waits for its minimum backoff
//	status written by another   during the attempt that failed:     outcome is written onto the
//	  reconciler meanwhile        the retry puts the row of that      current row, failure retried
//	                              time back; later: the outcome
//	                              of the retry is dropped, with
//	                              no other retry
//	StatusSet.All               reads the set when ranged over;     reads the set when called; sets
//	                              sets must be addressable            need not be addressable
//	Error that an earlier run   stays                               is run again
//	  left in a row
//	failed prune                gone from health with the next      in health until a prune
//	                              round, not retried                  succeeds; retried
//	limiter of rounds is nil    panic                               no limit
//	default limiter of rounds   1000/s                              none
//	minimum backoff above the   accepted                            Register returns an error
//	  maximum, limiter of
//	  burst 0
//	rounds for an insert        three, so three are counted         one
//	revision a wait returns     of the last change read             of the last change that
//	  while an object fails                                           asked for an operation
//	reading an unknown kind     Unset                               an error
//	StatusKind                  a struct, its values variables,     an integer, its values
//	                              marshals as JSON and YAML           constants, marshals as text
//	times in a StatusSet        as they were set                    local, without monotonic reading
//	error in health             the operations' errors, joined      their texts, joined; a prune's
//	                                                                  is first, not last
//	published metrics           second call panics; Map is empty    second call returns the same; Map
//	                                                                  has all variables
package dropin
