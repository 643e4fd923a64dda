// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package etcdtest has the tests of package etcd against real etcds, each in a process of its own, which
// are killed, compacted, wiped and cut off. It is not in the module of package etcd, because the server of etcd
// needs sixty modules that a program with the client does not, and go.mod of a module that tests with it would
// raise their versions for all who use that module.
//
// STATEKEEL_ETCD_HISTORIES sets the number of random histories, and STATEKEEL_ETCD_SEED the seed of the
// first one: each history has a seed of its own, which a failure names.
package etcdtest
