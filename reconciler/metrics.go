// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import "github.com/statekeel/statekeel/metrics"

// The names of package metrics under which a program that moves over from
// github.com/cilium/statedb/reconciler knows them.
type (
	// Metrics receives the figures of reconcilers.
	Metrics = metrics.Metrics
	// ExpVarMetrics is the implementation of [Metrics] on package expvar.
	ExpVarMetrics = metrics.ExpVar
)

// The operations that [Metrics] are told of.
const (
	OpUpdate = metrics.OpUpdate
	OpDelete = metrics.OpDelete
)

// NewExpVarMetrics returns metrics that are published with package expvar. There is
// one set of variables in a process: a second call returns metrics on the same
// variables. If something else is published under one of their names, the metrics
// work but stay unpublished; [metrics.PublishExpVar] returns that as an error.
func NewExpVarMetrics() *ExpVarMetrics {
	m, err := metrics.PublishExpVar()
	if err != nil {
		return metrics.NewExpVar()
	}
	return m
}

// NewUnpublishedExpVarMetrics returns metrics that only [ExpVarMetrics.Map] shows.
func NewUnpublishedExpVarMetrics() *ExpVarMetrics { return metrics.NewExpVar() }
