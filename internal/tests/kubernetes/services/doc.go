// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package servicestest has the test of example/services against a real API server with the real EndpointSlice controller,
// in namespaces in which clients connect to its services. The program runs as its manifest says.
package servicestest
