// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package httpserve_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/internal/httpserve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return listener
}

// endless is an answer that ends only with its request's context.
func endless(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte("first"))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestServeEndsWithItsContext(t *testing.T) {
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- httpserve.Serve(ctx, listener, http.HandlerFunc(endless)) }()

	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
	response, err := client.Get("http://" + listener.Addr().String())
	require.NoError(t, err)
	first := make([]byte, len("first"))
	_, err = io.ReadFull(response.Body, first)
	require.NoError(t, err)

	cancel()
	require.NoError(t, <-ended)
	_, err = io.ReadAll(response.Body)
	if err != nil {
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	require.NoError(t, response.Body.Close())
	transport.CloseIdleConnections()
	_, err = net.Dial("tcp", listener.Addr().String())
	require.Error(t, err)
}

func TestServeReportsAClosedListener(t *testing.T) {
	listener := listen(t)
	require.NoError(t, listener.Close())
	require.ErrorContains(t, httpserve.Serve(t.Context(), listener, http.NotFoundHandler()), "serve HTTP on 127.0.0.1:")
}
