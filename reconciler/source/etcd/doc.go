// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package etcd fills a statedb table from a prefix of etcd, and tells etcd how far this program is.
//
// A [Source] watches the prefix, and lists it beside the watch. Config.Decode makes objects of what it reads, for a
// [source.Sink], so equal rows are not written. Run it for as long as the program runs:
//
//   - A row is in the table when [source.State].Input has reached the revision of its key. Progress notifications of etcd
//     move Input on while the prefix does not change.
//   - The source reconnects by itself, after a random wait. It resumes a watch only in the same store, which it knows by a
//     random text (Config.Identity), by its cluster ID, and by its revision and raft term, which never go back. Otherwise,
//     and after a compaction, it lists the prefix again. Events are applied meanwhile. A list by time (Config.Relist) that
//     fails is in its health, and ends no watch.
//   - Rows that a store which has replaced another does not have are held ([Source.Holding]), and health says so: the store
//     may not be filled yet. The hold ends, and what the store still does not have is removed, when the prefix has not
//     changed between two comparisons (Config.Check) and, unless the sink has AllowEmpty, a key of it decodes. A list by
//     time or a new connection ends no hold. An empty prefix of the same store is believed, and so is the first list of a
//     program, which has no rows to hold.
//   - The sink holds deletions above [source.Config].MaxDeletions, of a list or of the events that come at once. The store
//     is followed meanwhile, and Input stays.
//   - A key with a bad value ([Source.Bad]) keeps its row from before, until it has a value that decodes, or is deleted.
//   - Of several keys that decode to one row, the one that was created first has it. When it is deleted, or decodes to
//     another row, the row goes to the next one. So agents that began at different times agree, except on the row of a key
//     whose value does not decode: it stays in those that had it.
//
// [Acks] writes an [Ack] into etcd: up to which revisions a reconciler has attempted and applied what the source read.
//
// # What it needs
//
// The server is etcd 3.5.8 or newer; older ones may notify of progress before the events. The client needs the permission
// to read the prefix and the key Config.Identity, and to write that key unless it exists; for Acks also to read and write
// acks/NAME and alive/NAME. Namespaces of package clientv3/namespace do not apply: the connection of the client is used.
package etcd
