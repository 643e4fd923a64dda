// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/vishvananda/netlink"

	"github.com/statekeel/statekeel/example/netagent/desired"
)

// feed keeps the table of the observed links equal to the kernel's links, also those of other programs, so
// that operations can wait for a link without polling.
type feed struct {
	desired.Surroundings
	log *slog.Logger

	// receiveBuffer is the size in bytes of the kernel's buffer for messages that the feed has not read;
	// zero is the system's default.
	receiveBuffer int
}

// After an error the feed waits between minPause and maxPause before it starts again: twice as long each
// time, until it has run for longer than maxPause.
const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// loopbackIndex is the index of the loopback in every network namespace.
const loopbackIndex = 1

// run follows the kernel until the context ends, and starts again whenever messages were lost. It is a job.
func (f *feed) run(ctx context.Context, health cell.Health) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		began := time.Now()
		err := f.follow(ctx, health)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		health.Degraded("does not know the kernel's links", err)
		f.log.Warn("lost track of the kernel's links, listing them again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// follow subscribes to the kernel's links, lists them, and then applies the changes, until the context ends
// or messages were lost.
func (f *feed) follow(ctx context.Context, health cell.Health) error {
	s, err := f.subscribe()
	if err != nil {
		return err
	}
	defer s.cancel()
	// The list comes after the subscription, so that no change is missed. A change may be reported twice and
	// late; later messages correct that.
	links, err := dump("links", netlink.LinkList)
	if err != nil {
		return err
	}
	count, err := f.take(func(c *changes) { c.replace(links) })
	if err != nil {
		return err
	}
	for {
		health.OK(fmt.Sprintf("%d links", count))
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.lost:
			return err
		case first, open := <-s.updates:
			if !open {
				return <-s.lost
			}
			heard := s.more(first)
			if count, err = f.take(func(c *changes) { c.apply(heard) }); err != nil {
				return err
			}
		}
	}
}

// take makes changes to the table in one transaction, reports their effects, and returns the number of
// links.
func (f *feed) take(change func(*changes)) (count int, err error) {
	// The kernel reports that a link is up, or down, before it has finished: the networks of its addresses
	// may be missing, or still exist. Looking up any link waits for the end, as both hold the kernel's lock.
	_, _ = netlink.LinkByIndex(loopbackIndex)

	c := &changes{txn: f.DB.WriteTxn(f.Links), links: f.Links, undid: make(map[string]desired.Effect)}
	defer c.txn.Abort()
	change(c)
	if c.err != nil {
		return 0, c.err
	}
	count = f.Links.NumObjects(c.txn)
	c.txn.Commit()
	for link, effect := range c.undid {
		f.Undid(link, effect)
	}
	return count, nil
}

// subscription receives the kernel's messages about links.
type subscription struct {
	updates chan netlink.LinkUpdate
	// lost receives the first error: messages are missing.
	lost chan error
	done chan struct{}
}

// subscribe subscribes to the links of the calling thread's namespace.
func (f *feed) subscribe() (*subscription, error) {
	s := &subscription{
		updates: make(chan netlink.LinkUpdate, 64),
		lost:    make(chan error, 1),
		done:    make(chan struct{}),
	}
	err := netlink.LinkSubscribeWithOptions(s.updates, s.done, netlink.LinkSubscribeOptions{
		ReceiveBufferSize: f.receiveBuffer,
		ErrorCallback: func(err error) {
			select {
			case s.lost <- fmt.Errorf("follow the kernel's links: %w", err):
			default:
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to the kernel's links: %w", err)
	}
	return s, nil
}

// cancel ends the subscription.
func (s *subscription) cancel() {
	close(s.done)
	for range s.updates { // otherwise its goroutine would block on a send
	}
}

// more returns an update and those that are already queued behind it.
func (s *subscription) more(first netlink.LinkUpdate) []netlink.LinkUpdate {
	heard := []netlink.LinkUpdate{first}
	for len(heard) <= cap(s.updates) {
		select {
		case update, open := <-s.updates:
			if !open {
				return heard
			}
			heard = append(heard, update)
		default:
			return heard
		}
	}
	return heard
}
