// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package config reads the desired state of a network namespace: links, addresses, routes and sysctls, from
// YAML (or JSON, in a request body).
//
// It is pure: the input is bytes, the output a [State] or a list of [Problems]. Each problem names file,
// line and column. The package finds everything that can be found without a kernel: syntax errors, misspelt
// fields, and objects that can never work, such as a route whose gateway no address reaches.
package config
