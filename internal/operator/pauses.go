// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxKeyText is the number of bytes of a key that an error has.
const maxKeyText = 256

// changing is held from when the keys that are paused are read until they are replaced: a call that came in between
// would be lost. It is not held for long: no operation is waited for.
var changing sync.Mutex

// Pause pauses objects, in addition to those that are paused by their keys. If neither the table nor the
// reconciler has one of the objects, the error is [inspect.ErrNotFound], and none is paused: the key is
// probably mistyped, unless the error says that a deletion of it may be unread. That is not noticed while
// the reconciler is busy.
func Pause(ctx context.Context, in inspect.Controller, keys ...string) error {
	c, err := loopOf(in)
	if err != nil {
		return err
	}
	var added []string
	var errs []error
	for _, key := range keys {
		x := c.Explain(ctx, key)
		if x.State == inspect.StateAbsent {
			errs = append(errs, fmt.Errorf("%w: %s: %s", inspect.ErrNotFound, shown(key), x.Why))
		}
		added = append(added, x.Key)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	changing.Lock()
	defer changing.Unlock()
	paused := c.Snapshot(ctx).Paused
	for _, key := range added {
		if !slices.Contains(paused, key) {
			paused = append(paused, key)
		}
	}
	return c.PauseOnly(paused...)
}

// Resume ends the pauses of objects that are paused by their keys. If one of the objects is not, that is
// an error, and none is resumed.
func Resume(ctx context.Context, in inspect.Controller, keys ...string) error {
	c, err := loopOf(in)
	if err != nil {
		return err
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = c.Explain(ctx, key).Key
	}
	changing.Lock()
	defer changing.Unlock()
	paused := c.Snapshot(ctx).Paused
	rest := slices.Clone(paused)
	var errs []error
	for i, key := range keys {
		is := func(text string) bool { return text == key || text == names[i] }
		if !slices.ContainsFunc(paused, is) {
			errs = append(errs, fmt.Errorf("object %s is not paused by its key", shown(key)))
		}
		rest = slices.DeleteFunc(rest, is)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return c.PauseOnly(rest...)
}

// loopOf returns the loop of a reconciler, or an error if its objects cannot be paused.
func loopOf(in inspect.Controller) (inspect.LoopController, error) {
	loop, ok := in.(inspect.LoopController)
	if !ok {
		return nil, fmt.Errorf("%s: single rows of a derivation cannot be paused", text.Plain(in.ID().String()))
	}
	return loop, nil
}

func shown(key string) string { return text.Plain(text.Short(key, maxKeyText)) }
