// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package commands_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// cloud is the outside system of the machines. It chooses the names of the machines that it creates.
type cloud struct {
	mu      sync.Mutex
	has     map[string]int // sizes by name
	created int
	// failures has the error texts of calls, by their names, such as "create".
	failures map[string]string
}

var _ managed.ExternalClient[*machine] = (*cloud)(nil)

// setFailure makes calls fail with a text. Without a text they succeed again.
func (c *cloud) setFailure(args []string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("cloud: which call?")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[args[0]] = strings.Join(args[1:], " ")
	return "", nil
}

// wrong returns the error of a call.
func (c *cloud) wrong(call string) error {
	if text := c.failures[call]; text != "" {
		return errors.New(text)
	}
	return nil
}

func (c *cloud) Observe(_ context.Context, m *machine) (managed.ExternalObservation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, exists := c.has[managed.GetExternalName(m)]
	return managed.ExternalObservation{ResourceExists: exists, ResourceUpToDate: size == m.Size}, c.wrong("observe")
}

// Create creates a machine, even if it fails: the failure stands for a lost answer.
func (c *cloud) Create(_ context.Context, m *machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.created++
	id := fmt.Sprintf("i-%d", c.created)
	c.has[id] = m.Size
	if err := c.wrong("create"); err != nil {
		return fmt.Errorf("%w: %w", err, managed.ErrCreateUnsure)
	}
	managed.SetExternalName(m, id)
	return nil
}

func (c *cloud) Update(_ context.Context, m *machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.has[managed.GetExternalName(m)] = m.Size
	return c.wrong("update")
}

// Delete deletes a machine. With the text "busy" it accepts the request and keeps the machine.
func (c *cloud) Delete(_ context.Context, m *machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.wrong("delete"); {
	case c.failures["delete"] == "busy":
		return nil
	case err != nil:
		return err
	}
	delete(c.has, managed.GetExternalName(m))
	return nil
}
