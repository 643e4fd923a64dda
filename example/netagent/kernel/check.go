// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Check returns an error if this process may not change its network namespace. It tests that by setting lo
// down, so use it only in a new namespace.
func Check() error {
	lo, err := findLink("lo")
	if err != nil {
		return err
	}
	if lo == nil {
		return fmt.Errorf("this network namespace has no link %q", "lo")
	}
	if err := netlink.LinkSetDown(lo); err != nil {
		return fmt.Errorf("try to set link %q down: %w", "lo", err)
	}
	return nil
}
