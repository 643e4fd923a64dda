// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package client talks to the tunnel broker. Its errors say what comes next in the words of a
// reconciler's operations, so that they can be returned as they are.
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
	// ErrNotFound is what a call comes back with if the broker has no tunnel of the ID.
	ErrNotFound = errors.New("not found")
	// ErrNoAnswer is what a call comes back with that may have had its effect or not: the
	// connection broke before the answer.
	ErrNoAnswer = errors.New("no answer")
)

// Client is a client of one broker. Its methods are safe from any goroutine, and end with their
// context. Their errors are:
//   - [reconciler.RetryAfter] if the broker says when to try again,
//   - wrapping [ErrNotFound] if there is no such tunnel,
//   - [reconciler.TerminalError] if the broker will never accept the request,
//   - wrapping [ErrNoAnswer] if nobody can tell,
//   - else an error to try again with backoff: the broker has failed.
type Client struct {
	base string
	http *http.Client
}

// New returns a client of the broker at a URL, such as "http://127.0.0.1:7080".
func New(base string) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &Client{base: base, http: &http.Client{Transport: transport}}
}

// Close closes the connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Create asks for a tunnel, and returns it; it may have existed.
func (c *Client) Create(ctx context.Context, request api.Request) (t api.Tunnel, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/tunnels", request, &t)
	return t, err
}

// Find returns the tunnel of a name, false if the broker does not show one.
func (c *Client) Find(ctx context.Context, owner, name string) (t api.Tunnel, found bool, err error) {
	all, err := c.list(ctx, url.Values{"owner": {owner}, "name": {name}})
	if err != nil || len(all) == 0 {
		return t, false, err
	}
	return all[0], true, nil
}

// List returns the tunnels of an owner that the broker shows.
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

// Delete deletes a tunnel, or begins to.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/tunnels/"+url.PathEscape(id), nil, nil)
}

// Truth returns what the broker really has, whoever owns it.
func (c *Client) Truth(ctx context.Context) (all []api.Tunnel, err error) {
	err = c.call(ctx, http.MethodGet, "/admin/tunnels", nil, &all)
	return all, err
}

// Audit returns what was done at the broker, by name.
func (c *Client) Audit(ctx context.Context) (all map[string]api.Audit, err error) {
	err = c.call(ctx, http.MethodGet, "/admin/audit", nil, &all)
	return all, err
}

// Drift changes or loses a tunnel behind its owner's back.
func (c *Client) Drift(ctx context.Context, d api.Drift) error {
	return c.call(ctx, http.MethodPost, "/admin/drift", d, nil)
}

// call sends a request, and reads the answer to it; to may be nil.
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
	defer func() { _ = response.Body.Close() }() // it was read
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

// unanswered returns the error of a call that nobody answered. It leaves out what differs from
// call to call, such as the port of the connection: else each failure would be a new one.
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

// failure returns what a failure means for whoever asked.
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
