// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package httpserve serves HTTP for as long as a program runs.
package httpserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// The times that a client may take to send a head, and an idle connection may stay. An
// answer may take as long as it likes: some go on for ever.
const (
	headTimeout = 10 * time.Second
	idleTimeout = time.Minute
)

// Serve answers requests until the context ends, and then hangs up. It closes the
// listener. An error means that it could not go on.
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
		// Requests end with their contexts, but for those of clients that do
		// not read their answers.
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
