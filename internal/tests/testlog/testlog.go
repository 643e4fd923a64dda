// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package testlog has what tests collect logs in.
package testlog

import (
	"bytes"
	"sync"
)

// Buffer collects what was logged, from any goroutine. The zero value is empty.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
