// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package debug serves a web page that shows what the reconcilers of a program do: their figures, the
// failed and blocked objects with the reasons, the state of one object, and the journal. Mount it next to pprof:
//
//	mux.Handle("/debug/reconciler/", debug.New(registry))
//
// or under any other path that ends in a slash, with or without [http.StripPrefix]. All links are
// relative, so a proxy in front of it may change the path but must keep the slash. With [WithWrites]
// the page also has buttons that act on a reconciler.
//
// The page has no login, and object keys and error texts may be secrets: mount it only where pprof may
// be mounted. On a loopback address it answers requests for the hosts of the machine itself only;
// [WithHosts] sets other hosts.
//
// # The pages, and their JSON
//
// Each page is also JSON: for requests with ?format=json, or with "Accept: application/json" and without
// text/html. NAME is a name for [inspect.Registry.Find]. If several reconcilers have the same name, the
// fields table and nth tell them apart; the links of the page have these fields. A button has them always, so
// that it never acts on a reconciler that has started since the page was loaded. Durations are in nanoseconds.
//
//	./                                        {"reconcilers": [Snapshot...]}
//	show?reconciler=NAME                      {"snapshot": Snapshot}
//	objects?reconciler=NAME&status=Error      inspect.ObjectPage; after=NEXT is the next page,
//	                                          limit is at most 1000, by default 50
//	explain?reconciler=NAME&key=KEY           [inspect.Explanation]
//	journal?reconciler=NAME                   {"events": [Event...], "rounds": [...]}, the latest
//	                                          last; key=KEY, since=5m or a time, limit at most
//	                                          1000, by default 100; no rounds with a key
//
// A list of objects, events or rounds has at most 1 MiB of JSON, or one element if that is larger. A
// page of objects then ends early and has a next page. The journal leaves out the oldest elements, and
// counts them in events_omitted and rounds_omitted. The list of reconcilers cuts each error to 300
// bytes; show has the full texts.
//
// These paths need [WithWrites] and the method POST:
//
//	retry, refresh, pause, resume             ?reconciler=NAME&key=KEY, with at most 1000 keys, or
//	                                          &all=true for the whole reconciler
//	prune, approve                            ?reconciler=NAME&all=true; approve lets one resync
//	                                          exceed its budget
//
// The answer is {"done": TEXT, "objects": N}, without objects if they were not counted. The fields may be
// in the query or in a form (application/x-www-form-urlencoded).
//
// An error is {"error": TEXT}, with one of these statuses:
//
//	400  a field is missing, unknown or has a wrong value
//	403  writes are not enabled, the write comes from another site, or the host is not allowed
//	404  there is no such page or reconciler
//	405  the method is wrong
//	409  the reconciler could not do it
//	415  the body is not a form
//
// # Cost
//
// The package has no goroutine and does nothing without requests. A page makes one or two queries to each
// reconciler that it shows (see [inspect.Inspector]), and lists at most the limit, whatever the number of
// objects. An open page in a browser sends one request in a second.
package debug
