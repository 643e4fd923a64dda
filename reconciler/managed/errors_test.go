// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// endless is an error that wraps itself twice.
type endless struct{ text string }

func (e *endless) Error() string   { return e.text }
func (e *endless) Unwrap() []error { return []error{e, e} }

// shared is a level in a graph of errors, where each one wraps the next twice.
type shared struct {
	next error
}

func (s *shared) Error() string   { return "shared" }
func (s *shared) Unwrap() []error { return []error{s.next, s.next} }

func TestErrorThatWrapsItselfDoesNotHang(t *testing.T) {
	var levels error = &endless{"deep"}
	for range 1000 {
		levels = &shared{levels}
	}
	for name, err := range map[string]error{"itself": &endless{"endless"}, "levels": levels} {
		for _, op := range []string{"observe", "create", "update", "delete"} {
			t.Run(name+"/"+op, func(t *testing.T) {
				each(t, func(e *env) {
					if op != "create" {
						e.settle(1)
					}
					e.cloud.fail(op, err)
					if e.want(2); op == "delete" {
						e.remove()
					}
					e.rows(func(b *bucket) {
						require.Contains(e, b.GetCondition(managed.TypeSynced).Message, err.Error())
					})
				}, noGrace)
			})
		}
	}
}

func TestErrCreateUnsureIsFoundInADeepError(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.fail("create", fmt.Errorf("%w: %w", &shared{fmt.Errorf("reset")}, managed.ErrCreateUnsure))
		e.want(1)
		e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
	}, nil)
}
