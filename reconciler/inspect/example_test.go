// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// routes stands in for a running reconciler.Loop that is in an operation.
type routes struct{ inspect.Controller }

func (routes) ID() inspect.ID { return inspect.ID{Module: "agent", Name: "routes", Table: "routes"} }

func (routes) Explain(_ context.Context, key string) inspect.Explanation {
	return inspect.Explanation{Key: key, State: inspect.StateBlocked, Why: "its operation waits for something: device eth0"}
}

func (routes) Objects(context.Context, inspect.ObjectQuery) (inspect.ObjectPage, error) {
	return inspect.ObjectPage{}, fmt.Errorf("agent/routes: %w", &inspect.BusyError{With: "update of 10.3.0.0/16"})
}

// A program gives one registry to all its reconcilers, by the option reconciler.WithRegistry. Each
// reconciler is in the registry while it runs.
func ExampleRegistry() {
	var registry inspect.Registry
	registry.Add(routes{}) // the option does this when the reconciler starts

	r, err := registry.Find("routes")
	if err != nil {
		fmt.Println(err)
		return
	}
	e := r.Explain(context.Background(), "10.1.0.0/16")
	fmt.Printf("%s is %s: %s\n", e.Key, e.State, e.Why)

	_, err = registry.Find("links")
	fmt.Println(errors.Is(err, inspect.ErrNoReconciler), err)
	// Output:
	// 10.1.0.0/16 is blocked: its operation waits for something: device eth0
	// true no reconciler "links", there are: agent/routes
}

// Only the loop tracks deletions, so a loop that is in an operation cannot list them.
func ExampleBusyError() {
	_, err := routes{}.Objects(context.Background(), inspect.ObjectQuery{Status: "Deleted"})
	var busy *inspect.BusyError
	if errors.As(err, &busy) {
		fmt.Println("try again later, it is in:", busy.With)
	}
	// Output: try again later, it is in: update of 10.3.0.0/16
}
