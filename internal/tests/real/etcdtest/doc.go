// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package etcdtest has the tests of package etcd against real etcds, each in a process of its own, which are killed,
// compacted, wiped and cut off. It is not in the module of package etcd, because the server of etcd needs sixty modules
// that a program with the client does not, and their versions would rise for all who use that module.
//
// Each random history has a seed, which a failure names: STATEKEEL_ETCD_SEED runs the one with that seed.
package etcdtest
