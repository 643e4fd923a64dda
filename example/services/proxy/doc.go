// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package proxy makes the kernel send the clients of services to their endpoints.
//
// An input writes two tables: a [Service] has addresses and ports, and an [EndpointSlice] some of its endpoints, as in
// Kubernetes. A derivation joins them: it makes a [Frontend] of each address, protocol and port that some service claims. Of
// several services the oldest wins. A reconciler makes package kernel have the frontends, a round in one transaction.
//
//	services --------derive.BestOf--> frontends --reconciler--> kernel.Table
//	endpoint-slices --derive.Lookup--^
//
// On other systems than Linux the package is empty.
package proxy
