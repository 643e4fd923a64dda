// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package config reads what a netagent is to keep in its network namespace:
// links, addresses, routes and sysctls, from YAML (or JSON, in a request body).
//
// It is pure: bytes go in, and a [State] or a list of [Problems] comes out. Each
// problem names file, line and column, so that a person can go there. It decides
// everything that can be decided without a kernel: what does not parse, what is
// misspelt, and what could never be made (a route whose gateway no address
// reaches, say).
package config
