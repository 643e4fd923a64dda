// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package debug serves a web page that shows what the reconcilers of a program do: their figures, the failed and blocked
// objects with the reasons, the state of one object, and the journal. Mount it next to pprof:
//
//	mux.Handle("/debug/reconciler/", debug.New(registry))
//
// The page has no login, and object keys and error texts may be secrets: mount it only where pprof may be mounted.
// [WithHosts] and [WithWrites] say who may read and act. A proxy in front must keep the slash at the end of the path.
//
// [New] lists the pages, which are JSON, too.
//
// Nothing runs without requests. The page "plan" lists the target; any other makes one or two queries to each reconciler
// that it shows, whatever the number of objects. An open page in a browser sends one request in a second.
package debug
