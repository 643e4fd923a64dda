// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/desired"
)

// feed follows what changes in the kernel. It keeps the table of the observed links equal to the kernel's links, also those
// of other programs, so that operations can wait for a link without polling. And it has the reconcilers look at what was
// changed from outside.
type feed struct {
	desired.Surroundings
	log    *slog.Logger
	routes *routes

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
	d := newDrift(f)
	var done sync.WaitGroup
	defer done.Wait()
	d.start(ctx, &done)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		began := time.Now()
		err := f.follow(ctx, health, d)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		health.Degraded("does not know what changes in the kernel", err)
		f.log.Warn("lost track of the kernel, listing everything again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// groups are the kinds of objects that the feed follows.
var groups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF,
}

// follow subscribes to the kernel's objects, lists the links, and then applies the changes, until the context ends
// or messages were lost.
func (f *feed) follow(ctx context.Context, health cell.Health, d *drift) error {
	s, err := f.subscribe()
	if err != nil {
		return err
	}
	defer s.cancel()
	// The lists come after the subscription, so that no change is missed. A change may be reported twice and
	// late; later messages correct that.
	links, err := dump("links", netlink.LinkList)
	if err != nil {
		return err
	}
	count, err := f.take(d, func(c *changes) { c.replace(links) })
	if err != nil {
		return err
	}
	d.resync()
	for {
		health.OK(fmt.Sprintf("%d links", count))
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.lost:
			return err
		case first, open := <-s.messages:
			if !open {
				return <-s.lost
			}
			heard := s.more(first)
			var updates []netlink.LinkUpdate
			for _, m := range heard {
				if m.Header.Type != unix.RTM_NEWLINK && m.Header.Type != unix.RTM_DELLINK {
					continue
				}
				header := unix.NlMsghdr(m.Header)
				link, err := netlink.LinkDeserialize(&header, m.Data)
				if err != nil {
					return fmt.Errorf("read a message about a link: %w", err)
				}
				updates = append(updates, netlink.LinkUpdate{IfInfomsg: *nl.DeserializeIfInfomsg(m.Data), Header: header, Link: link})
			}
			if len(updates) > 0 {
				if count, err = f.take(d, func(c *changes) { c.apply(updates) }); err != nil {
					return err
				}
			}
			if err := d.hear(heard); err != nil {
				return err
			}
		}
	}
}

// take makes changes to the table in one transaction, reports their effects, and returns the number of
// links.
func (f *feed) take(d *drift, change func(*changes)) (count int, err error) {
	// The kernel reports that a link is up, or down, before it has finished: the networks of its addresses
	// may be missing, or still exist. Looking up any link waits for the end, as both hold the kernel's lock.
	_, _ = netlink.LinkByIndex(loopbackIndex)

	c := &changes{txn: f.DB.WriteTxn(f.Links), links: f.Links, changed: make(map[string]desired.Effect)}
	defer c.txn.Abort()
	change(c)
	if c.err != nil {
		return 0, c.err
	}
	count = f.Links.NumObjects(c.txn)
	c.txn.Commit()
	for link, effect := range c.changed {
		if effect&desired.UndidRefusals != 0 {
			f.Undid(link, desired.UndidRefusals)
		}
		d.link(link, effect)
	}
	return count, nil
}

// subscription receives the kernel's messages.
type subscription struct {
	socket   *nl.NetlinkSocket
	messages chan syscall.NetlinkMessage
	// lost receives the error after which there are no more messages: some are missing.
	lost chan error
	done chan struct{}
}

// subscribe subscribes to the groups in the calling thread's namespace.
func (f *feed) subscribe() (*subscription, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, groups...)
	if err == nil && f.receiveBuffer > 0 {
		if err = socket.SetReceiveBufferSize(f.receiveBuffer, false); err != nil {
			socket.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to the kernel's changes: %w", err)
	}
	s := &subscription{
		socket: socket, messages: make(chan syscall.NetlinkMessage, 64), lost: make(chan error, 1), done: make(chan struct{}),
	}
	go s.receive()
	return s, nil
}

// receive passes messages on, until the subscription is cancelled or messages are lost.
func (s *subscription) receive() {
	defer close(s.messages)
	for {
		all, from, err := s.socket.Receive()
		if err != nil {
			s.lost <- fmt.Errorf("follow the kernel's changes: %w", err)
			return
		}
		if from.Pid != nl.PidKernel {
			continue
		}
		for _, m := range all {
			select {
			case s.messages <- m:
			case <-s.done:
			}
		}
	}
}

// cancel ends the subscription.
func (s *subscription) cancel() {
	close(s.done)
	s.socket.Close()
	for range s.messages { // until it is closed
	}
}

// more returns a message and those that are already queued behind it.
func (s *subscription) more(first syscall.NetlinkMessage) []syscall.NetlinkMessage {
	heard := []syscall.NetlinkMessage{first}
	for len(heard) <= cap(s.messages) {
		select {
		case m, open := <-s.messages:
			if !open {
				return heard
			}
			heard = append(heard, m)
		default:
			return heard
		}
	}
	return heard
}
