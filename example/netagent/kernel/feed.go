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

// feed keeps the table of the observed links as the kernel has them, whoever makes
// them, so that operations can wait for one without asking again and again.
type feed struct {
	desired.Surroundings
	log *slog.Logger

	// receiveBuffer is how many bytes the kernel keeps for a feed that is behind; zero
	// is as the system has it.
	receiveBuffer int
}

// The feed waits between minPause and maxPause after it lost the kernel before it begins
// anew: twice as long each time, until it has followed for longer than maxPause.
const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// loopbackIndex is that of the loopback in every network namespace.
const loopbackIndex = 1

// run follows the kernel until the context ends, and begins anew whenever something was
// lost on the way. It is a job.
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

// follow subscribes to the kernel's links, lists them, and then takes in what changes,
// until the context ends or something was lost.
func (f *feed) follow(ctx context.Context, health cell.Health) error {
	s, err := f.subscribe()
	if err != nil {
		return err
	}
	defer s.cancel()
	// After the subscription: what changes in between is told of, too. That it may be
	// told of twice, and late, is set right by what is told of after it.
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

// take makes changes to the table in one transaction, tells what came of them, and
// returns how many links there are.
func (f *feed) take(change func(*changes)) (count int, err error) {
	// The kernel tells that a link is up, or down, before it is through with what
	// follows: its addresses lack their networks, or are still there. To look a link up,
	// whichever, waits for that, as both take the kernel's lock.
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

// subscription is what the kernel says of links from some moment on.
type subscription struct {
	updates chan netlink.LinkUpdate
	// lost has the first error: something was not told.
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
	for range s.updates { // or its goroutine would wait for somebody to take one
	}
}

// more returns an update and those that are there already behind it.
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
