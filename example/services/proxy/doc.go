// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package proxy makes the kernel send the clients of services to their endpoints.
//
// An input writes two tables, as in Kubernetes: a [Service] has addresses and ports, an [EndpointSlice] some of its
// endpoints. A derivation makes a [Frontend] of each address, protocol and port that some service claims; of several
// services the oldest wins. A reconciler makes package kernel have the frontends, a round in one transaction.
//
//	services --------derive.BestOf--> frontends --reconciler--> kernel.Table
//	endpoint-slices --derive.Lookup--^
//
// On other systems than Linux the package is empty.
package proxy
