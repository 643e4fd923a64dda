// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// requestSystem maps the reconciler of requests that controllers for Kubernetes have.
var requestSystem = system{
	title: "Controllers and requests: package reconciler/request",
	pkg:   "request",
	about: "A reconciler of requests, as controllers for Kubernetes have it: see the " +
		"[package](../reconciler/request/doc.go). Any comparable type can be a request, so `Reconciler` has a type parameter. " +
		"`Result.Requeue` means `reconciler.RequeueBackoff`, `Result.RequeueAfter` above zero means `reconciler.Requeue` and " +
		"wins, and an error wins over both. A `RequeueAfter` holds until a call begins at its time or later, whatever a call in " +
		"between returns; there an event uses it up with the priority queue.",
	same: []string{
		"Reconciler",
		"Request: NamespacedName",
		"Result: Requeue, RequeueAfter",
	},
	rows: []row{
		{"Reconciler.Reconcile", "Reconciler.Reconcile",
			"also called for deleted objects: it finds no row then. After a `reconciler.TerminalError` health stays degraded until " +
				"the object changes"},
		{"controller.Func", "Func", "it has a context, as the method of the interface has"},
		{"controller.Request, controller.Result", "Request, Result", "second names there for the same types"},
		{"types.NamespacedName", "NamespacedName: Namespace, Name, String", "nothing of Kubernetes is linked"},
		{"Result.Priority", "", "the lanes of the loop go by the kind of a change; operations do not choose one"},
		{"Controller", "Controller: Run, Add, Loop, Table",
			"no client and no cache: the tables are both. Requests wait until the tables of all sources are initialised, without a " +
				"timeout. A deletion of an object or of an owned row is always a request; there a predicate can reject it"},
	},
	only: []string{
		"New, Register",
		"Config: Name, Reconciler, Sources, BeforeInitialized, KeyOf, SerialBy, DB, ModuleID, Log, Health, Options",
		"Source, For, Owns, Watches, Predicate, ChangesOf, ChangesOfFunc",
		"Change: Object, Old, Created, Deleted",
		"Row: Request",
		"Logger",
	},
}
