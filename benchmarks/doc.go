// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package benchmarks compares Statekeel with its peers by ordinary Go benchmarks, a sub-benchmark /impl=NAME for each
// contender. Each benchmark runs its workload once, measures it by itself, and checks the result:
//
//	go test -bench . -benchtime 1x -small        all of them in seconds: the figures mean nothing, the checks hold
//	./run.sh 6 Refresh > refresh.txt             six turns of one in which each contender has a process of its own
//	make bench                                   six turns of all, into results.txt
//	go tool -modfile ../tools/go.mod benchstat -col /impl refresh.txt
//
// The contenders:
//
//   - statekeel, with its default options; ledger=row has the outcomes in the rows, ledger=beside beside rows without a
//     status.
//   - statedb: github.com/cilium/statedb/reconciler v0.9.4, always with the outcomes in the rows. "+inf" lifts its limit of
//     1000 rounds a second.
//   - floor: a hand-written loop that reads the changes, calls the operation and, with ledger=row, writes the outcome: the
//     limit of the store.
//   - controller-runtime v0.25.2, without a manager, an API server and a logger.
//   - crossplane-runtime v2.4.0: its managed reconciler behind such a controller, with a client that keeps nothing.
//   - watchers: etcd's client alone.
//
// A row is a 64-bit number and a status behind a pointer, with one unique index. Contenders on tables run in a hive with
// their default metrics. CPU is that of the whole process, with the writer and the garbage collector.
package benchmarks
