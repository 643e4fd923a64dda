// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package demo is a network to try a proxy of services in: a client, machines that answer, and endpoints that come and
// go. On other systems than Linux it is empty.
package demo
