// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package config

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSysctlValue is the largest length of a value in bytes: the kernel accepts one page in a single write.
const maxSysctlValue = 4096

// Sysctl is a setting of the network namespace. Sysctls can be compared with ==.
type Sysctl struct {
	// Name begins with "net." and separates its parts by dots; a dot within a part (as in the name of a
	// link) is written as a slash.
	Name string `json:"name" yaml:"name"`

	// Value is one line, with single spaces between its words.
	Value string `json:"value" yaml:"value"`
}

// Key returns the sysctl's name, which is unique.
func (s Sysctl) Key() string { return s.Name }

// Path returns the parts of the sysctl's name in their order below /proc/sys, with dots where the name has
// slashes.
func (s Sysctl) Path() []string {
	parts := strings.Split(s.Name, ".")
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, "/", ".")
	}
	return parts
}

// The groups of settings that are not one link's: see [Sysctl.Group].
const (
	AllLinks = "all"
	NewLinks = "default"
)

// Group returns the link of a setting that each link has, or [AllLinks] or [NewLinks], which the kernel has in the
// place of a link, and the name of the setting in that group; both are empty for other settings.
func (s Sysctl) Group() (group, setting string) {
	path := s.Path()
	if len(path) < 5 || path[2] != "conf" && path[2] != "neigh" {
		return "", ""
	}
	return path[3], strings.Join(path[4:], ".")
}

// Needs returns the name of the link that the sysctl belongs to, or "" if it belongs to the whole namespace.
func (s Sysctl) Needs() string {
	group, _ := s.Group()
	if group == AllLinks || group == NewLinks {
		return ""
	}
	return group
}

// CanonicalSysctl returns a name in the form of [Sysctl], from that form or from the form with slashes
// between the parts. It returns an error if the name is not below /proc/sys/net.
func CanonicalSysctl(name string) (string, error) {
	if first := strings.IndexAny(name, "./"); first >= 0 && name[first] == '/' {
		name = swapSeparators(name)
	}
	for _, part := range (Sysctl{Name: name}).Path() {
		if part == "" || part == "." || part == ".." {
			return "", fmt.Errorf("sysctl %q: not a name", name)
		}
		for _, c := range []byte(part) {
			if c <= ' ' || c > '~' || c == '/' {
				return "", fmt.Errorf("sysctl %q: %q is not allowed", name, c)
			}
		}
	}
	if !strings.HasPrefix(name, "net.") {
		return "", fmt.Errorf("sysctl %q does not begin with \"net.\": only those belong to a network namespace", name)
	}
	return name, nil
}

func swapSeparators(name string) string {
	return strings.Map(func(c rune) rune {
		switch c {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return c
	}, name)
}

func (r *reader) sysctl(key, value *yaml.Node) (Located[Sysctl], bool) {
	name, err := CanonicalSysctl(key.Value)
	if err != nil {
		r.addf(key, "%v", err)
		return Located[Sysctl]{}, false
	}
	text, ok := r.sysctlValue(name, value)
	return Located[Sysctl]{
		Spec:   Sysctl{Name: name, Value: text},
		Pos:    r.pos(key),
		fields: map[string]Pos{"value": r.pos(value)},
	}, ok
}

func (r *reader) sysctlValue(name string, n *yaml.Node) (string, bool) {
	node := resolve(n)
	if node.ShortTag() == "!!bool" {
		r.addf(n, "sysctl %q: write 1 or 0, not %s", name, node.Value)
		return "", false
	}
	value := r.text(fmt.Sprintf("sysctl %q", name), n)
	if err := checkSysctlValue(value); err != nil && node.Kind == yaml.ScalarNode && node.ShortTag() != "!!null" {
		r.addf(n, "sysctl %q: %v", name, err)
		return "", false
	}
	return strings.Join(strings.Fields(value), " "), value != ""
}

func checkSysctlValue(value string) error {
	switch {
	case strings.TrimSpace(value) == "":
		return errors.New("an empty value")
	case len(value) >= maxSysctlValue:
		return fmt.Errorf("a value of %d bytes, more than the kernel takes", len(value))
	case strings.ContainsAny(value, "\n\x00"):
		return errors.New("a value goes on one line")
	}
	return nil
}
