// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"fmt"
	"net"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LinkKind is the type of a network interface.
type LinkKind string

// The kinds of links in a state. A loopback always exists and is named lo: a state that has it brings it up.
const (
	Bridge   LinkKind = "bridge"
	Veth     LinkKind = "veth"
	Loopback LinkKind = "loopback"
)

// The default MTUs, which are the kernel's. A link with less than minIPv6MTU bytes cannot carry IPv6.
const (
	defaultMTU         = 1500
	defaultLoopbackMTU = 65536
	minMTU             = 68
	maxMTU             = 65535
	minIPv6MTU         = 1280
)

// maxLinkName is the kernel's limit on the length of a link name, in bytes.
const maxLinkName = 15

// Link is a network interface. Links can be compared with ==.
type Link struct {
	Name string   `json:"name" yaml:"name"`
	Kind LinkKind `json:"kind" yaml:"kind"`

	// Peer is the name of the other end of a veth, which is a link too; empty for other kinds.
	Peer string `json:"peer,omitempty" yaml:"peer,omitempty"`

	// Master is the bridge that has this end of a veth as a port; empty means none.
	Master string `json:"master,omitempty" yaml:"master,omitempty"`

	// MTU is in bytes, never zero.
	MTU int `json:"mtu" yaml:"mtu"`

	// MAC is in lower case; empty leaves the choice to the kernel.
	MAC string `json:"mac,omitempty" yaml:"mac,omitempty"`

	// Up reports whether the link is administratively up.
	Up bool `json:"up" yaml:"up"`
}

// Key returns the link's name, which is unique.
func (l Link) Key() string { return l.Name }

// Needs returns the name of the link that must exist before this one can be configured: its bridge, or "" if
// it has none.
func (l Link) Needs() string { return l.Master }

// readLinks reads one link. A veth yields two: its other end is a link too.
func readLinks(n *yaml.Node) ([]Link, error) {
	var raw struct {
		Name, Master, MAC string
		Kind              LinkKind
		Peer              yaml.Node
		MTU               int
		Up                bool
	}
	raw.Up = true
	if err := decode(n, "link", &raw); err != nil {
		return nil, err
	}
	links := []Link{{Name: raw.Name, Kind: raw.Kind, Master: raw.Master, MTU: raw.MTU, MAC: raw.MAC, Up: raw.Up}}
	if raw.MTU == 0 {
		links[0].MTU = defaultMTU
		if raw.Kind == Loopback {
			links[0].MTU = defaultLoopbackMTU
		}
	}
	if !raw.Peer.IsZero() {
		peer, err := readPeer(&raw.Peer, links[0])
		if err != nil {
			return nil, err
		}
		links[0].Peer = peer.Name
		links = append(links, peer)
	}
	for i := range links {
		if err := links[i].check(); err != nil {
			return nil, err
		}
	}
	return links, nil
}

// readPeer reads the other end of a veth: its name, or a mapping with its name. Fields that the mapping leaves
// out are as on the first end, except master and mac.
func readPeer(n *yaml.Node, first Link) (Link, error) {
	if resolve(n).Kind != yaml.MappingNode {
		peer := Link{Kind: first.Kind, Peer: first.Name, MTU: first.MTU, Up: first.Up}
		return peer, n.Decode(&peer.Name)
	}
	var raw struct {
		Name, Master, MAC string
		MTU               int
		Up                bool
	}
	raw.MTU, raw.Up = first.MTU, first.Up
	err := decode(n, "peer", &raw)
	return Link{Name: raw.Name, Kind: first.Kind, Peer: first.Name, Master: raw.Master, MTU: raw.MTU, MAC: raw.MAC, Up: raw.Up}, err
}

// check returns an error if there is no such link, and normalises the MAC.
func (l *Link) check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("link %q: "+format, append([]any{l.Name}, args...)...)
	}
	if err := checkLinkName(l.Name); err != nil {
		return err
	}
	most := maxMTU
	switch l.Kind {
	case Veth:
		if l.Peer == "" {
			return wrong("a veth needs a peer, the name of its other end")
		}
	case Bridge, Loopback:
		if l.Peer != "" || l.Master != "" {
			return wrong("a %s has no peer and no master", l.Kind)
		}
	default:
		return wrong("unknown kind %q; known are bridge, loopback, veth", l.Kind)
	}
	if (l.Kind == Loopback) != (l.Name == "lo") {
		return wrong("the loopback, and nothing else, is named \"lo\"")
	}
	if l.Kind == Loopback {
		most = defaultLoopbackMTU
	}
	if l.MTU < minMTU || l.MTU > most {
		return wrong("an MTU of %d, must be from %d to %d", l.MTU, minMTU, most)
	}
	if l.Master != "" {
		if err := checkLinkName(l.Master); err != nil {
			return wrong("its master: %w", err)
		}
	}
	if l.MAC == "" {
		return nil
	}
	mac, err := net.ParseMAC(l.MAC)
	switch {
	case l.Kind == Loopback:
		return wrong("a loopback has no mac")
	case err != nil || len(mac) != 6:
		return wrong("mac %q: six bytes such as 02:00:00:00:00:01 are needed", l.MAC)
	case mac[0]&1 != 0 || mac.String() == "00:00:00:00:00:00":
		return wrong("mac %q is not the address of one station", l.MAC)
	}
	l.MAC = mac.String()
	return nil
}

// checkLinkName returns an error if name is not a valid link name: if the kernel would reject or change it
// ("%d" becomes a number), or if it means something else below net.ipv4.conf ("all" and "default").
func checkLinkName(name string) error {
	switch {
	case name == "" || len(name) > maxLinkName:
		return fmt.Errorf("name %q of a link: from 1 to %d bytes are allowed", name, maxLinkName)
	case name == "." || name == ".." || name == "all" || name == "default":
		return fmt.Errorf("name %q of a link is reserved", name)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || strings.IndexByte(`/:%"\`, c) >= 0 {
			return fmt.Errorf("name %q of a link: %q is not allowed", name, c)
		}
	}
	return nil
}
