// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/managed/api"
	"github.com/statekeel/statekeel/example/managed/client"
	"github.com/statekeel/statekeel/reconciler/managed"
	"github.com/statekeel/statekeel/reconciler/object"
)

// external is the client of the broker for the tunnels of one owner.
type external struct {
	broker *client.Client
	owner  string
}

var (
	_ managed.ExternalConnecter[*Tunnel] = (*external)(nil)
	_ managed.ExternalClient[*Tunnel]    = (*external)(nil)
)

// Connect implements [managed.ExternalConnecter]. All tunnels have the same broker.
func (e *external) Connect(context.Context, *Tunnel) (managed.ExternalClient[*Tunnel], error) {
	return e, nil
}

// Observe implements [managed.ExternalClient]. It finds tunnels by name, also those of an earlier
// process.
func (e *external) Observe(ctx context.Context, t *Tunnel) (managed.ExternalObservation, error) {
	there, found, err := e.broker.Find(ctx, e.owner, t.Name)
	if err != nil || !found {
		return managed.ExternalObservation{}, err
	}
	t.ID, t.Address = there.ID, there.Address
	observation := managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: there.Settings == t.Settings}
	if !observation.ResourceUpToDate {
		observation.Diff = fmt.Sprintf("wanted %+v, there is %+v", t.Settings, there.Settings)
	}
	return observation, nil
}

// Create implements [managed.ExternalClient].
func (e *external) Create(ctx context.Context, t *Tunnel) error {
	_, err := e.broker.Create(ctx, api.Request{Name: t.Name, Owner: e.owner, Settings: t.Settings})
	if errors.Is(err, client.ErrNoAnswer) {
		return fmt.Errorf("%w: %w", managed.ErrCreateUnsure, err)
	}
	return err
}

// Update implements [managed.ExternalClient].
func (e *external) Update(ctx context.Context, t *Tunnel) error {
	return e.broker.Update(ctx, t.ID, t.Settings)
}

// Delete implements [managed.ExternalClient].
func (e *external) Delete(ctx context.Context, t *Tunnel) error {
	err := e.broker.Delete(ctx, t.ID)
	if errors.Is(err, client.ErrNotFound) {
		return nil // reads show it for a while
	}
	return err
}

// errNotSeen is returned while reads do not show the mark yet.
var errNotSeen = errors.New("the broker does not show yet that the tunnel is marked as left")

// leave implements the hook of [managed.WithLeaveHook]: it marks a tunnel that must stay, before its
// row is removed. It fails until reads show the mark, since List is a read. If a row takes over the
// tunnel, Update removes the mark, like every setting that differs.
func (e *external) leave(ctx context.Context, t *Tunnel) error {
	there, found, err := e.broker.Find(ctx, e.owner, t.Name)
	if err != nil || !found || there.Left {
		return err
	}
	there.Left = true
	if err := e.broker.Update(ctx, there.ID, there.Settings); err != nil {
		return err
	}
	return errNotSeen
}

// List implements [reconciler.Lister]: it lists the tunnels of this owner, so that those without a row
// are deleted, such as those that were removed from the file while no agent ran. Marked tunnels were
// left in place on purpose.
func (e *external) List(ctx context.Context, _ statedb.ReadTxn, yield func(*Tunnel) bool) error {
	all, err := e.broker.List(ctx, e.owner)
	if err != nil {
		return err
	}
	for _, there := range all {
		if there.Left {
			continue
		}
		t := &Tunnel{Meta: managed.Meta{Meta: object.Meta{Name: there.Name}}, Settings: there.Settings, ID: there.ID, Address: there.Address}
		t.Finalizers = []string{managed.FinalizerName}
		if !yield(t) {
			break
		}
	}
	return nil
}
