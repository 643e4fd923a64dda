// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package debug is a page that shows what the reconcilers of a program do: figures, a plot
// of the last ten minutes, what fails and what is blocked and why, the story of one object,
// and the journal. It is mounted next to pprof:
//
//	mux.Handle("/debug/reconciler/", debug.New(registry))
//
// or under any other path that ends in a slash, with or without [http.StripPrefix]. Behind
// a proxy that changes the path the slash has to stay, as all links are relative. [New] with
// [WithWrites] has buttons, too.
//
// The page asks nobody who they are, and object keys and error texts may be secrets: mount it
// where pprof may be mounted, which is not where the world is. On a loopback address it answers
// to the hosts of the machine itself only; [WithHosts] sets the hosts that it answers to.
//
// # The pages, and their JSON
//
// Each page is JSON to who sends "Accept: application/json" without text/html, or asks for
// ?format=json. NAME is what [inspect.Registry.Find] takes; the links of the page add
// table and nth where reconcilers have the same name. Durations are in nanoseconds.
//
//	./                                        {"reconcilers": [Snapshot...]}
//	show?reconciler=NAME                      {"snapshot": Snapshot, "timeline": [Sample...]}
//	objects?reconciler=NAME&status=Error      [inspect.ObjectPage]; after=NEXT is the next one,
//	                                          limit up to 1000, 50 unless said
//	explain?reconciler=NAME&key=KEY           [inspect.Explanation]
//	journal?reconciler=NAME                   {"events": [Event...], "rounds": [...]}, the latest
//	                                          last; key=KEY, since=5m or a time, limit up to 1000,
//	                                          100 unless said; with a key there are no rounds
//
// A list of objects, events or rounds has at most 1 MiB of JSON, or a single element: a page of
// objects ends early and has a NEXT, the journal leaves out the oldest and says how many those
// are in events_omitted and rounds_omitted. The list of reconcilers has the first 300 bytes of an
// error, and show all that is kept of it.
//
// With [WithWrites], and by POST only:
//
//	retry, refresh, pause, resume             ?reconciler=NAME&key=KEY for the objects with these
//	                                          keys, 1000 at most; &all=true for everything
//	prune, approve                            ?reconciler=NAME&all=true; approve lets one sweep
//	                                          delete beyond its budget
//
// answer {"done": TEXT, "objects": how many, if that was counted}. The fields are in the query
// or in a form (application/x-www-form-urlencoded).
//
// A refusal is {"error": TEXT}: 400 for a question that makes no sense or has an unknown field,
// 403 for a write that is not enabled or comes from another site, and for a host that the page
// does not answer to, 404 for what there is not, 405 for another method, 409 for what the
// reconciler cannot do as things are, 415 for a body that is not a form.
//
// # What it costs
//
// Nothing while nobody looks. A page asks each reconciler that it shows a question or two
// (see [inspect.Inspector]) and lists no more than the limit, however many objects there
// are. Somebody who looks asks once a second.
package debug
