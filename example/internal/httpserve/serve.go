// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package httpserve serves HTTP until a context ends.
package httpserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// The time that a client has to send a header, and the longest time that a connection may be idle. Answers
// have no limit: some do not end.
const (
	headTimeout = 10 * time.Second
	idleTimeout = time.Minute
)

// Serve answers requests until the context ends, and then closes the listener and all connections. It
// returns an error if it cannot accept connections any more.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		// Requests end with their contexts, except those of clients that do not read their answers.
		_ = server.Close()
	})
	err := server.Serve(listener)
	if !stop() {
		<-stopped
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", listener.Addr(), err)
	}
	return nil
}
