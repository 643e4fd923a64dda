// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

// This file holds second spellings of names of this package, for programs that move from a runtime for
// managed resources that has, or had, both: see docs/COMPATIBILITY.md. New programs do not need them.

// ExternalConnector is another spelling of [ExternalConnecter].
type ExternalConnector[T any] = ExternalConnecter[T]

// ExternalDisconnector is another spelling of [ExternalDisconnecter].
type ExternalDisconnector = ExternalDisconnecter

// ExternalConnectDisconnector is another spelling of [ExternalConnectDisconnecter].
type ExternalConnectDisconnector[T any] = ExternalConnectDisconnecter[T]

// ExternalConnectorFn is another spelling of [ExternalConnecterFn].
type ExternalConnectorFn[T any] = ExternalConnecterFn[T]

// ExternalDisconnectorFn is another spelling of [ExternalDisconnecterFn].
type ExternalDisconnectorFn = ExternalDisconnecterFn

// ExternalConnectDisconnectorFns is another spelling of [ExternalConnectDisconnecterFns].
type ExternalConnectDisconnectorFns[T any] = ExternalConnectDisconnecterFns[T]

// NopConnector is another spelling of [NopConnecter].
type NopConnector[T any] = NopConnecter[T]

// NopDisconnector is another spelling of [NopDisconnecter].
type NopDisconnector[T any] = NopDisconnecter[T]

// NewNopDisconnector is another spelling of [NewNopDisconnecter].
func NewNopDisconnector[T any](c ExternalConnector[T]) ExternalConnectDisconnector[T] {
	return NewNopDisconnecter(c)
}

// ReconcilerOption is another name of [Option].
type ReconcilerOption = Option

// WithExternalConnector is another spelling of [WithExternalConnecter].
func WithExternalConnector[T any](c ExternalConnector[T]) Option { return WithExternalConnecter(c) }

// WithExternalConnectDisconnector is another spelling of [WithExternalConnectDisconnecter].
func WithExternalConnectDisconnector[T any](c ExternalConnectDisconnector[T]) Option {
	return WithExternalConnectDisconnecter(c)
}
