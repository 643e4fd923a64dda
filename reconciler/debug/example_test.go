// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Mount the page next to pprof. In a hive the registry comes from inspect.Cell; each reconciler with the
// option reconciler.WithRegistry adds itself to it.
func ExampleNew() {
	registry := &inspect.Registry{}
	mux := http.NewServeMux()
	mux.Handle("/debug/reconciler/", debug.New(registry, debug.WithWrites()))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/debug/reconciler/?format=json", nil))
	fmt.Println(answer.Code, answer.Body)
	// Output: 200 {"reconcilers":[]}
}
