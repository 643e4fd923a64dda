// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// requestSystem maps the reconciler of requests that controllers for Kubernetes have.
var requestSystem = system{
	title: "Controllers and requests: package reconciler/request",
	pkg:   "request",
	about: "A reconciler of requests, as [controllers](../reconciler/request/doc.go) for Kubernetes have it. Any comparable " +
		"type can be a request, so `Reconciler` has a type parameter. An error wins over `Result.RequeueAfter`, that over " +
		"`Result.Requeue`. A `RequeueAfter` holds whatever a call before its time returns; there an event uses it up with the " +
		"priority queue.",
	same: []string{
		"Reconciler",
		"Request: NamespacedName",
		"Result: Requeue, RequeueAfter",
	},
	rows: []row{
		{"Reconciler.Reconcile", "Reconciler.Reconcile",
			"also called for deleted objects: it finds no row then. After a `reconciler.TerminalError` health stays degraded until " +
				"the object changes"},
		{"controller.Func, controller.Request, controller.Result", "Func, Request, Result",
			"second names there. `Func` has a context, as the method has"},
		{"types.NamespacedName", "NamespacedName: Namespace, Name, String", "nothing of Kubernetes is linked"},
		{"Result.Priority", "", "the lanes of the loop go by the kind of a change"},
		{"Controller", "Controller: Run, Add, Loop, Table",
			"the tables are client and cache. Requests wait until the tables of all sources are initialised, without a timeout. A " +
				"deletion of an object or of an owned row is always a request; there a predicate can reject it"},
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
