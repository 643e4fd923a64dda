// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestFlows(t *testing.T) {
	inNamespace(t)
	if err := makeFlows(300); err != nil {
		t.Fatal(err)
	}
	flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	if err != nil {
		t.Fatal(err)
	}
	if len(flows) != 300 {
		t.Errorf("conntrack has %d flows", len(flows))
	}
	for _, f := range flows {
		if f.Forward.Protocol != unix.IPPROTO_UDP || f.TimeOut < 60*60 {
			t.Errorf("a flow is %v", f)
		}
	}
}
