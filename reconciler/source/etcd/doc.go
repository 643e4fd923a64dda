// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package etcd fills a statedb table from a prefix of etcd, and tells etcd how far this program is.
//
// A [Source] watches the prefix, and lists it beside the watch. What it reads goes through a function that decodes it into
// a [source.Sink], so equal rows are not written. Run it for as long as the program runs:
//
//   - A row is in the table when [source.State].Input has reached the revision of its key. Progress notifications of etcd
//     move Input on while the prefix does not change.
//   - The source reconnects by itself, after a random wait. A watch that broke is resumed only in the same store. The source
//     knows a store by a random text in the key Config.Identity, which the first source makes, by its cluster ID, and by
//     its revision and raft term, which never go back. Otherwise, and after a compaction, it lists the prefix again. It
//     compares every Config.Check, and lists every Config.Relist. Meanwhile events are applied. A list by time that fails
//     is in its health, and ends no watch.
//   - Rows that a store which has replaced another does not have are held ([Source.Holding]), and health says so: the store
//     may not be filled yet. The hold ends, and what the store still does not have is removed, when the prefix has not
//     changed between two comparisons and, unless the sink has AllowEmpty, a key of it decodes. A list by time or a new
//     connection ends no hold. In a store that is the same an empty prefix is believed, and so is the first list of a
//     program, which has no rows to hold.
//   - Deletions above [source.Config].MaxDeletions, of a list or of the events that come at once, are held by the sink. The
//     store is followed meanwhile, and Input stays.
//   - A value that does not decode is a bad key ([Source.Bad]), and the row before it stays, until the key has a value that
//     decodes, or is deleted.
//   - Of several keys that decode to one row, the one that was created first has it, and the others are bad keys. When it is
//     deleted, or decodes to another row, the row goes to the next one. So agents that began at different times agree,
//     except on the row of a key whose value does not decode: it stays in those that had it.
//
// [Acks] writes an [Ack] into etcd: up to which revisions a reconciler has attempted, and has applied, what the source
// read, and what fails.
//
// # What it needs
//
// The server is etcd 3.5.8 or newer; older ones may notify of progress before the events. The client needs the permission
// to read the prefix and the key Config.Identity, and to write that key unless it exists; for Acks also to read and write
// acks/NAME and alive/NAME. The source and Acks use the connection of the client directly: namespaces of package
// clientv3/namespace do not apply.
//
// The source keeps the last object of each key: 210 to 300 bytes for a key of 25, and the object, which the table has, too,
// unless the sink merges. A list takes the memory of its keys and values.
//
// A store that is restored from a backup has its identity, too. If it also has the cluster ID, and has passed the revision
// and the raft term that the source had seen before the source reads it again, only the next list by time finds the
// differences: delete the key Config.Identity after a restore.
package etcd
