// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// Check returns an error if this process may not change its network namespace. It tests that by setting lo as it is.
func Check() error {
	lo, err := findLink("lo")
	if err != nil {
		return err
	}
	if lo == nil {
		return fmt.Errorf("this network namespace has no link %q", "lo")
	}
	set := netlink.LinkSetDown
	if lo.Attrs().Flags&net.FlagUp != 0 {
		set = netlink.LinkSetUp
	}
	if err := set(lo); err != nil {
		return fmt.Errorf("try to change link %q: %w", "lo", err)
	}
	return nil
}
