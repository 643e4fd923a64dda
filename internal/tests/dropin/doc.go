// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package dropin proves that a program written against
// github.com/cilium/statedb/reconciler v0.8.3 does the same when only its import path is
// changed to github.com/statekeel/statekeel/reconciler.
//
// The programs are in the folder programs. The tests here run them twice, as written and
// with the path changed in a copy (an overlay of "go test": nothing is written into the
// module), and fail if either run fails or if their transcripts differ. Another test goes
// over the exported names of both packages, and over the programs for their use.
//
// The peer's own tests that use it from outside are run in the same way, from the source in
// the module cache.
//
// Where Statekeel means to differ, the programs hold for both sides, by asserting less:
//
//	what                        v0.8.3                              Statekeel
//	first retry                 after 2 x the minimum backoff       after the minimum
//	retries                     exact                               up to a tenth earlier (jitter)
//	retries of batches          one by one, by single operations    in batches
//	the same failure again      rewrites the row, wakes watchers    writes nothing
//	change of a failing object  tried at once, backoff forgotten    waits out its minimum backoff
//	status written by another   result of a retry is dropped, the   result is committed, failure
//	  reconciler meanwhile        failure never retried               retried
//	failed prune                gone from health with the next      in health until a prune
//	                              round, not retried                  succeeds; retried
//	limiter of rounds is nil    panic                               no limit
//	default limiter of rounds   1000/s                              none
//	minimum backoff above the   accepted                            Register returns an error
//	  maximum, limiter of
//	  burst 0
//	rounds for an insert        three, so three are counted         one
//	revision a wait returns     of the last change read             of the last change that
//	  while something is owed                                         asked for something
//	reading an unknown kind     Unset                               an error
//	StatusKind                  a struct, its values variables,     an integer, its values
//	                              marshals as JSON and YAML           constants, marshals as text
//	times in a StatusSet        as they were set                    local, without monotonic reading
//	error in health             the operations' errors, joined      their texts, joined; a prune's
//	                                                                  is first, not last
//	published metrics           again: panic; Map is empty          again: the same; Map has all
package dropin
