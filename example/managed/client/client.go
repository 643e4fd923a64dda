// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package client is a client of the tunnel broker. Its errors are outcomes of a reconciler's
// operations, so that operations can return them as they are.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/statekeel/statekeel/example/managed/api"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
)

var (
	// ErrNotFound is returned if the broker has no tunnel with the ID.
	ErrNotFound = errors.New("not found")
	// ErrNoAnswer is returned if a call may or may not have taken effect: the connection broke before
	// the answer.
	ErrNoAnswer = errors.New("no answer")
)

// Client is a client of one broker. Its methods are safe for concurrent use, and return when their
// context ends. Their errors are:
//   - [reconciler.RetryAfter] if the broker says when to try again,
//   - wrapping [ErrNotFound] if there is no such tunnel,
//   - [reconciler.TerminalError] if the broker will never accept the request,
//   - wrapping [ErrNoAnswer] if the result is not known,
//   - otherwise an error that is retried with backoff: the broker has failed.
type Client struct {
	base string
	http *http.Client
}

// New returns a client of the broker at a URL, such as "http://127.0.0.1:7080".
func New(base string) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &Client{base: base, http: &http.Client{Transport: transport}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Create requests a tunnel, and returns it. It may have existed before.
func (c *Client) Create(ctx context.Context, request api.Request) (t api.Tunnel, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/tunnels", request, &t)
	return t, err
}

// Find returns the tunnel of a name, false if reads of the broker do not show one.
func (c *Client) Find(ctx context.Context, owner, name string) (t api.Tunnel, found bool, err error) {
	all, err := c.list(ctx, url.Values{"owner": {owner}, "name": {name}})
	if err != nil || len(all) == 0 {
		return t, false, err
	}
	return all[0], true, nil
}

// List returns the tunnels of an owner, as reads of the broker show them.
func (c *Client) List(ctx context.Context, owner string) ([]api.Tunnel, error) {
	return c.list(ctx, url.Values{"owner": {owner}})
}

func (c *Client) list(ctx context.Context, query url.Values) (all []api.Tunnel, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/tunnels?"+query.Encode(), nil, &all)
	return all, err
}

// Update changes the settings of a tunnel.
func (c *Client) Update(ctx context.Context, id string, settings api.Settings) error {
	return c.call(ctx, http.MethodPut, "/v1/tunnels/"+url.PathEscape(id), settings, nil)
}

// Delete deletes a tunnel, or starts its deletion.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/tunnels/"+url.PathEscape(id), nil, nil)
}

// Truth returns the tunnels that exist at the broker, of all owners.
func (c *Client) Truth(ctx context.Context) (all []api.Tunnel, err error) {
	err = c.call(ctx, http.MethodGet, "/admin/tunnels", nil, &all)
	return all, err
}

// Audit returns the broker's counts of what was done, by name.
func (c *Client) Audit(ctx context.Context) (all map[string]api.Audit, err error) {
	err = c.call(ctx, http.MethodGet, "/admin/audit", nil, &all)
	return all, err
}

// Drift changes or loses a tunnel without its owner.
func (c *Client) Drift(ctx context.Context, d api.Drift) error {
	return c.call(ctx, http.MethodPost, "/admin/drift", d, nil)
}

// call sends a request, and decodes the answer into to, which may be nil.
func (c *Client) call(ctx context.Context, method, path string, body, to any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(encoded))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return unanswered(method, path, err)
	}
	defer func() { _ = response.Body.Close() }() // the body was read
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return unanswered(method, path, err)
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %w", method, path, failure(response, answer))
	}
	if to == nil {
		return nil
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// unanswered returns the error of a call without an answer. It leaves out what differs between calls,
// such as the port of the connection: otherwise each failure would be a new one.
func unanswered(method, path string, err error) error {
	var operation *net.OpError
	var whole *url.Error
	switch {
	case errors.As(err, &operation):
		err = operation.Err
	case errors.As(err, &whole):
		err = whole.Err
	}
	return fmt.Errorf("%s %s: %w: %w", method, path, ErrNoAnswer, err)
}

// failure returns the outcome that a failed answer means for the caller.
func failure(response *http.Response, answer []byte) error {
	var problem api.Problem
	if json.Unmarshal(answer, &problem) != nil || problem.Error == "" {
		problem.Error = "no explanation"
	}
	err := fmt.Errorf("%s: %s", text.Printable(response.Status), text.Printable(problem.Error))
	if seconds, parseErr := strconv.Atoi(response.Header.Get("Retry-After")); parseErr == nil && seconds > 0 {
		return reconciler.RetryAfter(err, time.Duration(seconds)*time.Second)
	}
	switch {
	case response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case response.StatusCode < 500 && response.StatusCode != http.StatusTooManyRequests:
		return reconciler.TerminalError(err)
	}
	return err
}
