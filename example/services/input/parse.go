// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/reconciler/source/files"
)

// Entry is a service as people write it: an address with one port, which has no name, and its endpoints.
type Entry struct {
	Name    string
	At      kernel.Service
	Created time.Time
	// Endpoints are ready, and Unready are not.
	Endpoints, Unready []netip.AddrPort
}

func (e *Entry) service() *proxy.Service {
	return &proxy.Service{
		Name: e.Name, Created: e.Created, Addresses: []netip.Addr{e.At.Address.Addr()},
		Ports: []proxy.Port{{Protocol: e.At.Protocol, Number: e.At.Address.Port()}},
	}
}

// slices returns the slices of the service: one for each port of an endpoint, in the order of the endpoints.
func (e *Entry) slices() (all []*proxy.EndpointSlice) {
	for i, at := range slices.Concat(e.Endpoints, e.Unready) {
		n := slices.IndexFunc(all, func(s *proxy.EndpointSlice) bool { return s.Ports[0].Number == at.Port() })
		if n < 0 {
			n = len(all)
			all = append(all, &proxy.EndpointSlice{
				Name: fmt.Sprintf("%s/%d", e.Name, at.Port()), Service: e.Name,
				Ports: []proxy.Port{{Protocol: e.At.Protocol, Number: at.Port()}},
			})
		}
		ready := i < len(e.Endpoints)
		all[n].Endpoints = append(all[n].Endpoints, proxy.Endpoint{Address: at.Addr(), Ready: ready, Serving: ready})
	}
	return all
}

// parser collects the problems of a text, each with its position.
type parser struct {
	file     string
	problems []error
}

func (p *parser) addf(n *yaml.Node, format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf("%s:%d:%d: %s", p.file, n.Line, n.Column, fmt.Sprintf(format, args...)))
}

// fail adds an error of the YAML package, which names lines in its texts.
func (p *parser) fail(err error) {
	texts := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) {
		texts = wrong.Errors
	}
	for _, text := range texts {
		at := ": "
		if rest, found := strings.CutPrefix(text, "line "); found {
			at, text = ":", rest
		}
		p.problems = append(p.problems, errors.New(p.file+at+text))
	}
}

func (p *parser) decode(n *yaml.Node, into any) {
	if err := n.Decode(into); err != nil {
		p.fail(err)
	}
}

// unknown rejects the fields that a mapping has beside those that are known.
func (p *parser) unknown(rest map[string]yaml.Node) {
	for _, field := range slices.Sorted(maps.Keys(rest)) {
		n := rest[field]
		p.addf(&n, "unknown field %q", field)
	}
}

// root returns the only document of a text; nil if there is none.
func (p *parser) root(data []byte) *yaml.Node {
	var doc, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && doc.Content[0].ShortTag() == "!!null" {
		p.problems = append(p.problems, fmt.Errorf("%s:1: is empty", p.file))
		return nil
	}
	if err == nil {
		if err = d.Decode(&second); errors.Is(err, io.EOF) {
			return doc.Content[0]
		} else if err == nil {
			p.addf(&second, "a second document; only one is read")
			return nil
		}
	}
	p.fail(err)
	return nil
}

// parseFile returns the services of a file. The error has a line for each problem. An empty file is one, since editors
// write one for a moment: to want no service, write services: [].
func parseFile(file string, data []byte) (services []files.Entry[*Entry], err error) {
	p := parser{file: file}
	root := p.root(data)
	if root == nil {
		return nil, errors.Join(p.problems...)
	}
	var doc struct {
		Services []yaml.Node
		Rest     map[string]yaml.Node `yaml:",inline"`
	}
	if root.Kind == yaml.MappingNode {
		p.decode(root, &doc)
	}
	p.unknown(doc.Rest)
	if doc.Services == nil && p.problems == nil {
		p.addf(root, "services is missing; for no service, write services: []")
	}
	lines := map[string]int{}
	for _, n := range doc.Services {
		s, name := p.service(&n)
		if first := lines[s.Name]; first != 0 {
			p.addf(name, "service %q is there twice, first in line %d", s.Name, first)
		} else if s.Name != "" {
			lines[s.Name] = name.Line
		}
		services = append(services, files.Entry[*Entry]{Object: s, Line: n.Line, Column: n.Column})
	}
	return services, errors.Join(p.problems...)
}

// nameForm is the form of a name, which people type as an argument of commands.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,299}$`)

// service returns the service that n describes, and the node of its name.
func (p *parser) service(n *yaml.Node) (s *Entry, name *yaml.Node) {
	var fields struct {
		Name, Address, Created yaml.Node
		Endpoints, Unready     []yaml.Node
		Rest                   map[string]yaml.Node `yaml:",inline"`
	}
	before := len(p.problems)
	s = &Entry{Created: time.Unix(0, 0).UTC()}
	if n.Kind == yaml.ScalarNode || n.Kind == yaml.SequenceNode {
		p.addf(n, "a service is a mapping, with an address")
		return s, n
	}
	if p.decode(n, &fields); len(p.problems) > before {
		return s, n
	}
	p.unknown(fields.Rest)
	if name = &fields.Name; name.Kind == 0 {
		name = n
	} else {
		s.Name = p.text(name)
	}
	if !nameForm.MatchString(s.Name) {
		p.addf(name, "the name %q is not made of letters, digits and ._:/-", s.Name)
	}
	if at := &fields.Address; at.Kind == 0 {
		p.addf(n, "address is missing, such as tcp/10.96.0.1:80")
	} else {
		var err error
		s.At, err = kernel.ParseService(p.text(at))
		p.check(at, s.At.Address, err)
	}
	if created := &fields.Created; created.Kind != 0 {
		if created.Decode(&s.Created) != nil {
			p.addf(created, "%q is not a time such as 2026-01-31T12:00:00Z", created.Value)
		}
	}
	seen := map[netip.AddrPort]bool{}
	for i, n := range slices.Concat(fields.Endpoints, fields.Unready) {
		text := p.text(&n)
		address, err := netip.ParseAddrPort(text)
		if err != nil {
			err = fmt.Errorf("%q: %w", text, err)
		}
		p.check(&n, address, err)
		if at := s.At.Address; err == nil && at.IsValid() && at.Addr().Is4() != address.Addr().Is4() {
			p.addf(&n, "endpoint %s is not of the family of %s", address, at)
		}
		if seen[address] && err == nil {
			p.addf(&n, "endpoint %s is there twice", address)
		}
		seen[address] = true
		if i < len(fields.Endpoints) {
			s.Endpoints = append(s.Endpoints, address)
		} else {
			s.Unready = append(s.Unready, address)
		}
	}
	return s, name
}

func (p *parser) text(n *yaml.Node) (text string) {
	p.decode(n, &text)
	return text
}

// check rejects an address that the kernel would reject.
func (p *parser) check(n *yaml.Node, address netip.AddrPort, err error) {
	switch {
	case err != nil:
		p.addf(n, "%s", err)
	case address.Addr().Zone() != "" || address.Addr().Is4In6():
		p.addf(n, "%s is not a plain address of IPv4 or IPv6 with a port", address)
	case address.Port() == 0:
		p.addf(n, "%s has no port", address)
	}
}

// Format returns the text of a file with these services.
func Format(services []*Entry) ([]byte, error) {
	type entry struct {
		Name, Address      string
		Created            time.Time
		Endpoints, Unready []netip.AddrPort `yaml:",flow,omitempty"`
	}
	doc := struct{ Services []entry }{[]entry{}}
	for _, s := range services {
		doc.Services = append(doc.Services, entry{s.Name, s.At.String(), s.Created, s.Endpoints, s.Unready})
	}
	return yaml.Marshal(doc)
}
