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

// links reads one link. A veth yields two: its other end is a link too.
func (r *reader) links(n *yaml.Node) []Located[Link] {
	link := Link{Up: true}
	var peer *yaml.Node
	at := r.mapping("link", n, map[string]func(*yaml.Node){
		"name":   func(n *yaml.Node) { link.Name = r.linkName(n) },
		"kind":   func(n *yaml.Node) { link.Kind = r.linkKind(n) },
		"peer":   func(n *yaml.Node) { peer = n },
		"master": func(n *yaml.Node) { link.Master = r.linkName(n) },
		"mtu":    func(n *yaml.Node) { link.MTU = int(r.number("mtu", n, minMTU, defaultLoopbackMTU)) },
		"mac":    func(n *yaml.Node) { link.MAC = r.mac(n) },
		"up":     func(n *yaml.Node) { link.Up = r.boolean("up", n) },
	})
	first := Located[Link]{link, r.pos(n), at}
	if link.Name == "" || link.Kind == "" {
		r.incomplete("link", n, at, "name", "kind")
		return nil
	}
	r.fitsKind(&first)
	if link.Kind != Veth || peer == nil {
		return []Located[Link]{first}
	}
	second := r.peer(peer, first.Spec)
	if second.Spec.Name == "" {
		return nil
	}
	first.Spec.Peer = second.Spec.Name
	return []Located[Link]{first, second}
}

// peer reads the other end of a veth: its name, or a mapping with its name. Fields that the mapping leaves
// out are as on the first end, except master and mac.
func (r *reader) peer(n *yaml.Node, first Link) Located[Link] {
	link := Link{Kind: Veth, Peer: first.Name, MTU: first.MTU, Up: first.Up}
	at := map[string]Pos{"name": r.pos(n)}
	if resolve(n).Kind != yaml.MappingNode {
		link.Name = r.linkName(n)
	} else {
		at = r.mapping("peer", n, map[string]func(*yaml.Node){
			"name":   func(n *yaml.Node) { link.Name = r.linkName(n) },
			"master": func(n *yaml.Node) { link.Master = r.linkName(n) },
			"mtu":    func(n *yaml.Node) { link.MTU = int(r.number("mtu", n, minMTU, maxMTU)) },
			"mac":    func(n *yaml.Node) { link.MAC = r.mac(n) },
			"up":     func(n *yaml.Node) { link.Up = r.boolean("up", n) },
		})
		r.incomplete("peer", n, at, "name")
	}
	return Located[Link]{link, r.pos(n), at}
}

// fitsKind reports the fields that a link of this kind cannot have, and sets the default MTU if none is
// given.
func (r *reader) fitsKind(l *Located[Link]) {
	kind := l.Spec.Kind
	not := func(field string) {
		if _, given := l.fields[field]; given {
			r.problems.addf(l.At(field), "link %q: a %s has no %s", l.Spec.Name, kind, field)
		}
	}
	if l.Spec.MTU == 0 {
		l.Spec.MTU = defaultMTU
		if kind == Loopback {
			l.Spec.MTU = defaultLoopbackMTU
		}
	}
	if kind != Loopback && l.Spec.MTU > maxMTU {
		r.problems.addf(l.At("mtu"), "link %q: an MTU of %d is more than the %d a %s can have", l.Spec.Name, l.Spec.MTU, maxMTU, kind)
	}
	if kind != Veth {
		not("peer")
		not("master")
	} else if _, given := l.fields["peer"]; !given {
		r.problems.addf(l.Pos, "link %q: a veth needs a peer, the name of its other end", l.Spec.Name)
	}
	if kind == Loopback {
		not("mac")
	}
	if (kind == Loopback) != (l.Spec.Name == "lo") {
		r.problems.addf(l.At("name"), "link %q: the loopback, and nothing else, is named \"lo\"", l.Spec.Name)
	}
}

func (r *reader) linkKind(n *yaml.Node) LinkKind {
	switch kind := LinkKind(r.text("kind", n)); kind {
	case Bridge, Veth, Loopback, "":
		return kind
	default:
		r.addf(n, "unknown kind %q of link; known are bridge, loopback, veth", kind)
		return ""
	}
}

func (r *reader) linkName(n *yaml.Node) string {
	name := r.text("name of a link", n)
	if err := checkLinkName(name); err != nil && resolve(n).Kind == yaml.ScalarNode {
		r.addf(n, "%v", err)
		return ""
	}
	return name
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

func (r *reader) mac(n *yaml.Node) string {
	value := r.text("mac", n)
	mac, err := net.ParseMAC(value)
	if err != nil || len(mac) != 6 {
		r.addf(n, "mac %q: six bytes such as 02:00:00:00:00:01 are needed", value)
		return ""
	}
	if mac[0]&1 != 0 || mac.String() == "00:00:00:00:00:00" {
		r.addf(n, "mac %q is not the address of one station", value)
	}
	return mac.String()
}

// incomplete reports the fields of a mapping that are missing.
func (r *reader) incomplete(what string, n *yaml.Node, given map[string]Pos, needed ...string) {
	if resolve(n).Kind != yaml.MappingNode {
		return
	}
	for _, field := range needed {
		if _, ok := given[field]; !ok {
			r.addf(n, "%s: %s is missing", what, field)
		}
	}
}
