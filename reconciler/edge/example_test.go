// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package edge_test

import (
	"context"
	"fmt"

	"github.com/statekeel/statekeel/reconciler/edge"
)

// routes is a target with two maps. An operation changes one after the other, so it may end between the two.
type routes struct{ via, metric map[string]string }

func (r *routes) set(ctx context.Context, prefix, via, metric string) error {
	err := edge.Do(ctx, "gateway of "+prefix, func() error {
		r.via[prefix] = via
		return nil
	})
	if err != nil {
		return err
	}
	return edge.Do(ctx, "metric of "+prefix, func() error {
		r.metric[prefix] = metric
		return nil
	})
}

// In a program the steps are calls. In a test by reconcilertest.Check each of them goes wrong.
func ExampleDo() {
	r := &routes{map[string]string{}, map[string]string{}}
	fmt.Println(r.set(context.Background(), "10.0.0.0/8", "192.0.2.1", "50"))
	fmt.Println(r.via, r.metric)
	// Output:
	// <nil>
	// map[10.0.0.0/8:192.0.2.1] map[10.0.0.0/8:50]
}
