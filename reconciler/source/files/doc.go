// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package files fills a statedb table from a folder of files, or from one file, and follows their edits.
//
// A [Source] reads the files, has Config.Parse make objects of each, and puts them into a [source.Sink], so equal rows are
// not written. Run it for as long as the program runs:
//
//   - A file is read when it is whole: when the programs that write it have closed it, or have renamed it into its place.
//     On Linux inotify tells, and the kernel is asked whether a program has it open for writing. A file that is never
//     closed is not read, and health names it after a minute. A program that closes it between two writes should replace
//     it by a rename: the first part may be a good file, without the other objects.
//   - Where that cannot be seen, a file is read when it was unchanged for Config.Settle, and half a file is possible.
//   - A bad file changes nothing: what its last good version wanted stays. Health, <table>-inputs and Explain have the
//     errors of Parse.
//   - The table is initialised when each file has had a good version, so a reconciler removes nothing before that an
//     earlier run has left in the target. The objects of the other files are in the table meanwhile.
//   - Of two files that claim one primary key the first by name has it. The other claim is a problem, which names both
//     positions, and gets the key when the first file gives it up.
//   - What a file wanted is removed when the file is missing for Config.Settle: editors take it away for a moment. Nothing
//     is removed because the folder is missing, or the only file; the source is disconnected then. A folder without files
//     is an empty list, which the sink refuses without AllowEmpty. A file that is truncated and parses removes what it does
//     not have any more: bound that with source.Config.MaxDeletions.
//   - Symbolic links are followed, and so are the swaps of the link ..data, with which mounted configuration of Kubernetes
//     changes, and a folder that is removed and made again.
//   - The files are looked at from time to time in any case, since some file systems have no events; every Config.Poll if
//     the system has no inotify left, and the log says so.
package files
