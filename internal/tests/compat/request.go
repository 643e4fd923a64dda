// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

// requestSystem maps the reconciler of requests that controllers for Kubernetes have.
var requestSystem = system{
	title: "Controllers and requests: package reconciler/request",
	pkg:   "request",
	about: "A reconciler of requests, as controllers for Kubernetes have it: see the " +
		"[package](../reconciler/request/doc.go). `Reconciler` has a type parameter, as any comparable type can be a request; " +
		"`Request` is ready-made. `Result.Requeue` means `reconciler.RequeueBackoff`; `Result.RequeueAfter` means " +
		"`reconciler.Requeue`, and wins if it is above zero. An error wins over both. The time of a `RequeueAfter` holds until a " +
		"call begins at it or later, whatever a call in between returns; there an event uses it up with the priority queue.",
	same: []string{
		"Reconciler",
		"Request: NamespacedName",
		"Result: Requeue, RequeueAfter",
	},
	rows: []row{
		{"Reconciler.Reconcile", "Reconciler.Reconcile", adapted,
			"also called for deleted objects: it finds no row then. `reconciler.TerminalError` is logged, counted and not " +
				"retried; while the object exists, the row of its request keeps the error, and health stays degraded until " +
				"the object changes"},
		{"controller.Func", "Func", adapted, "it has a context, as the method of the interface has"},
		{"controller.Request, controller.Result", "Request, Result", adapted, "second names there for the same types"},
		{"types.NamespacedName", "NamespacedName: Namespace, Name, String", adapted,
			"our own type: nothing of Kubernetes is linked"},
		{"Result.Priority", "", leftOut,
			"in later versions only. The lanes of the loop go by the kind of a change; operations do not choose one"},
		{"Controller", "Controller: Run, Add, Loop, Table", adapted,
			"no client and no cache: the tables are both. `Add` is for events from outside the tables"},
		{"", "New, Register; Config: Name, Reconciler, Sources, BeforeInitialized, KeyOf, SerialBy, DB, ModuleID, Log, Health, Options", added,
			"make a controller without a hive, and in one. Requests wait until the tables of all sources are initialised, without " +
				"a timeout, as workers there wait for the caches; `BeforeInitialized` turns that off"},
		{"", "Source, For, Owns, Watches, Predicate, ChangesOf, ChangesOfFunc", added,
			"say which changes make requests, as builders of controllers do. All predicates are called for each change. `Watches` maps the old row and the new one. A " +
				"deletion of an object or of an owned row is always a request, even if a predicate rejects it; there it is not"},
		{"", "Change: Object, Old, Created, Deleted", added,
			"stands for the create, update and delete events there. Changes that come faster than they are read become one, " +
				"from the version that was read before to the latest"},
		{"", "Row: Request", added, "a request in the table of the controller"},
		{"", "Logger", added, "returns the logger in the context, with controller and request, as `log.FromContext` does"},
	},
}
