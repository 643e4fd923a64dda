// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// A server says when it accepts the next request. The operation is retried then, and not after the
// backoff.
func ExampleRetryAfter() {
	attempts := 0
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(context.Context, *Rule) error {
			if attempts++; attempts < 3 {
				return reconciler.RetryAfter(errors.New("too many requests"), time.Millisecond)
			}
			return nil
		}),
	})
	s.insert(pending("allow-ssh"))
	s.waitApplied()
	s.stop()
	fmt.Println(attempts, "attempts")

	// Output:
	// 3 attempts
}

// A rule that can never be applied is not retried until its row changes.
func ExampleTerminalError() {
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(_ context.Context, rule *Rule) error {
			if strings.Contains(rule.Name, " ") {
				return reconciler.TerminalError(errors.New("the name has a space"))
			}
			return nil
		}),
	})
	defer s.stop()
	s.insert(pending("allow ssh"), pending("allow-ssh"))
	s.waitAttempted()
	fmt.Println(s.row("allow ssh").Status.Kind, s.row("allow ssh").Status.GetError())
	fmt.Println(s.row("allow-ssh").Status.Kind)

	// Output:
	// Error the name has a space
	// Done
}

// An operation cannot be done yet. It names a channel that closes when it should run again. For rows
// of other tables there is [reconciler.Need].
func ExampleBlocked() {
	started := make(chan struct{})
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(context.Context, *Rule) error {
			select {
			case <-started:
				return nil
			default:
				return reconciler.Blocked("the firewall has not started", started)
			}
		}),
	})
	defer s.stop()
	s.insert(pending("allow-ssh"))
	s.waitAttempted()
	fmt.Println(s.row("allow-ssh").Status.Kind, s.row("allow-ssh").Status.GetError())

	close(started)
	s.waitApplied()
	fmt.Println(s.row("allow-ssh").Status.Kind)

	// Output:
	// Blocked the firewall has not started
	// Done
}

// A lease has to be renewed before it ends. The rule is Done in the meantime.
func ExampleRequeue() {
	leases := make(chan int, 3)
	lease := 0
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(context.Context, *Rule) error {
			if lease++; lease > 3 {
				return nil // enough for this example
			}
			leases <- lease
			return reconciler.Requeue(time.Millisecond)
		}),
	})
	defer s.stop()
	s.insert(pending("allow-ssh"))
	for range 3 {
		fmt.Println("lease", <-leases)
	}

	// Output:
	// lease 1
	// lease 2
	// lease 3
}

// A deletion that takes long returns RequeueBackoff until the object is gone. That is no failure, and a
// wait for the deletion goes on.
func ExampleRequeueBackoff() {
	s := startRules(reconciler.Config[*Rule]{
		Operations: &slowFirewall{},
		Options:    []reconciler.Option{reconciler.WithRetry(time.Millisecond, time.Millisecond)},
	})
	defer s.stop()
	s.insert(pending("allow-ssh"))
	s.waitApplied()

	wtxn := s.db.WriteTxn(s.rules)
	s.rules.Delete(wtxn, pending("allow-ssh"))
	wtxn.Commit()
	s.waitApplied()

	// Output:
	// deleting allow-ssh
	// deleting allow-ssh
	// allow-ssh is gone
}

// slowFirewall deletes a rule with its third call.
type slowFirewall struct {
	firewall
	deletions int
}

func (*slowFirewall) Update(context.Context, statedb.ReadTxn, statedb.Revision, *Rule) error {
	return nil
}

func (f *slowFirewall) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, rule *Rule) error {
	if f.deletions++; f.deletions < 3 {
		fmt.Println("deleting", rule.Name)
		return reconciler.RequeueBackoff()
	}
	fmt.Println(rule.Name, "is gone")
	return nil
}
