// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package kubernetestest has the tests of package reconciler/source/kubernetes against a real API server, which is killed,
// restored, replaced and cut off, and against a proxy before it that answers, stalls and cuts. Package services has those
// of example/services.
//
// The server, which package apiserver starts, is the real program with its etcd in one process. One with the storage of
// some kinds alone would be ready in half a second instead of two, but it has neither RBAC nor custom kinds, which the
// tests need, and is several times the code.
//
// Each random history has a seed, which a failure names: STATEKEEL_KUBERNETES_SEED runs the one with that seed.
package kubernetestest
