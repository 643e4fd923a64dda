// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package input fills the tables of services and of endpoint slices of package proxy: from a YAML file whose edits are
// followed, from an API server of Kubernetes, or with services that it makes up. On other systems than Linux it is empty.
//
// In a file, services is a list:
//
//	services:
//	  - name: default/web:http          # the key
//	    address: tcp/10.96.0.1:80       # where clients connect to; tcp or udp
//	    created: 2026-01-31T12:00:00Z   # of two services with one address the older wins; 1970 if it is missing
//	    endpoints: [10.2.0.11:8080]     # those that are ready
//	    unready: [10.2.0.12:8080]       # those that get no new clients
//
// The endpoints of a service are a slice for each of their ports.
package input
