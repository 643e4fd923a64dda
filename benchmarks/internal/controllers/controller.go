// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package controllers holds contenders that get requests, and managed resources that are polled: those of Statekeel,
// controller-runtime and crossplane-runtime. Each calls a [subject.Target].
package controllers

import (
	"context"
	"fmt"
	"strconv"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// Controller is a contender that gets requests and calls its target for each. It has none of the
// rows of package subject. Methods may be called from any goroutine; none after Stop.
type Controller interface {
	// Prepare makes requests first, first+1, ... first+n-1, and returns a function that asks for all of them
	// at once. Call that function once.
	Prepare(first, n uint64) (ask func() error, err error)
	// Await waits until all requests are done and their outcomes, where the contender writes them, are
	// written, or until ctx ends. Call it after the target was called for the requests.
	Await(ctx context.Context) error
	// Left returns the number of requests that remain.
	Left() uint64
	// Target is called once for each reconciliation.
	Target() *subject.Target
	// Stop stops the controller and waits for it to end.
	Stop(ctx context.Context) error
}

// namespace is the namespace of all requests and of the objects that they name.
const namespace = "bench"

// nameOf returns the name of request id, numberOf its id.
func nameOf(id uint64) string { return strconv.FormatUint(id, 10) }

func numberOf(name string) (uint64, error) {
	id, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("request %q was never made: %w", name, err)
	}
	return id, nil
}

// reconcileNamed reconciles a request: it calls the target.
func reconcileNamed(target *subject.Target, name string) error {
	id, err := numberOf(name)
	if err != nil {
		return err
	}
	return target.Update(id)
}
