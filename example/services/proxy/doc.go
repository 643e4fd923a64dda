// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package proxy makes the kernel send the clients of services to their endpoints.
//
// Two tables are on the way. An input writes a [Service] for each port of a service. A derivation makes a [Frontend]
// of each address, protocol and port that some service claims: of several, the oldest wins. A reconciler makes package
// kernel have the frontends, a round in one transaction.
//
//	services --derive.Best--> frontends --reconciler--> kernel.Table
//
// On other systems than Linux the package is empty.
package proxy
