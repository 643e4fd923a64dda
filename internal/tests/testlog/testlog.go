// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package testlog collects logs in tests.
package testlog

import (
	"bytes"
	"sync"
)

// Buffer collects what is written to it. The zero value is empty and ready for use. Safe from any goroutine.
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

// String returns everything that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
