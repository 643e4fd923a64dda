// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package debug serves a web page that shows what the reconcilers of a program do: their figures, the failed and blocked
// objects with the reasons, the state of one object, and the journal. Mount it next to pprof:
//
//	mux.Handle("/debug/reconciler/", debug.New(registry))
//
// or under any other path that ends in a slash: a proxy in front may change the path but must keep the slash.
//
// The page has no login, and object keys and error texts may be secrets: mount it only where pprof may be mounted.
// [WithHosts] and [WithWrites] say who may read and act.
//
// # The pages, and their JSON
//
// Each page is that of a command of package commands, and has its flags as fields and its JSON: for requests with
// ?format=json, or with "Accept: application/json" and without text/html. NAME is a name for [inspect.Registry.Find]. If
// several reconcilers have the same name, the field number tells them apart (see [inspect.Registry.Number]). A button
// always sends it, so that it never acts on a reconciler that has started since the page was loaded. Durations are in
// nanoseconds.
//
//	./                                   {"reconcilers": [Snapshot...], "sources": [SourceSnapshot...]};
//	                                     no sources if there are none
//	show?reconciler=NAME                 [inspect.Snapshot]
//	objects?reconciler=NAME              [inspect.ObjectPage]; status=Error; limit, 50 by default; after=NEXT
//	explain?reconciler=NAME&key=KEY      [inspect.Explanation]
//	journal?reconciler=NAME              [{"reconciler": NAME, "events": [Operation...]}], the latest last;
//	                                     key=KEY; since=5m or a time; limit, 100 by default, 0 for all;
//	                                     first-failures=true; or rounds=true, with "rounds" in place of "events"
//	plan?reconciler=NAME                 [inspect.Plan]; timeout=1m
//	source?source=TABLE/SOURCE           [inspect.SourceSnapshot]
//
// Lists cut each text, except keys, to 300 bytes. The texts in full are in explain and show.
//
// These paths need [WithWrites] and the method POST. Their fields are in the address, and they have no body:
//
//	retry, refresh, pause, resume        ?reconciler=NAME&key=KEY, or &all=true for the whole reconciler
//	prune, approve                       ?reconciler=NAME&all=true; approve lets one resync exceed its budget
//	approve                              ?source=NAME&set=SET, for the deletions that a source holds, if they are
//	                                     exactly this set
//
// The answer is {"reconciler": NAME or "source": NAME, "key": KEY, "action": ACTION, "done": TEXT, "objects": N}, without
// objects if they were not counted. An error is {"error": TEXT}, with one of these statuses:
//
//	400  a field is missing, unknown or has a wrong value
//	403  writes are not enabled, the write comes from another site, or the host is not allowed
//	404  there is no such page, reconciler or source
//	405  the method is wrong
//	409  the reconciler could not do it, or is a derivation and has no such thing
//	415  the request has a body
//
// # Cost
//
// Nothing runs without requests. The page "plan" lists the target. Any other page makes one or two queries to each
// reconciler that it shows (see [inspect.Inspector]), whatever the number of objects. An open page in a browser sends one
// request in a second.
package debug
