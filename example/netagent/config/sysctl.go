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

// checkSysctlName returns an error if the name is not in the form of [Sysctl], or not below /proc/sys/net.
func checkSysctlName(name string) error {
	for _, part := range (Sysctl{Name: name}).Path() {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("sysctl %q: not a name", name)
		}
		for _, c := range []byte(part) {
			if c <= ' ' || c > '~' || c == '/' {
				return fmt.Errorf("sysctl %q: %q is not allowed", name, c)
			}
		}
	}
	if !strings.HasPrefix(name, "net.") {
		return fmt.Errorf("sysctl %q does not begin with \"net.\": only those belong to a network namespace", name)
	}
	return nil
}

// readSysctls reads the section of the sysctls, a mapping of names and values.
func readSysctls(problems *Problems, file string, n *yaml.Node) (all []Located[Sysctl]) {
	n = resolve(n)
	if n.IsZero() || isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		problems.add(posOf(file, n), errors.New("sysctls: a mapping is needed"))
	}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content) && !problems.full(); i += 2 {
		pos := posOf(file, n.Content[i])
		sysctl, err := makeSysctl(resolve(n.Content[i]).Value, n.Content[i+1])
		if err != nil {
			problems.add(pos, err)
		}
		all = append(all, Located[Sysctl]{sysctl, pos})
	}
	return all
}

func readSysctl(n *yaml.Node) (Sysctl, error) {
	var raw struct {
		Name  string
		Value yaml.Node
	}
	if err := decode(n, "sysctl", &raw); err != nil {
		return Sysctl{}, err
	}
	return makeSysctl(raw.Name, &raw.Value)
}

func makeSysctl(name string, value *yaml.Node) (s Sysctl, err error) {
	s.Name = name
	if err := checkSysctlName(name); err != nil {
		return s, err
	}
	value = resolve(value)
	switch err := checkSysctlValue(value.Value); {
	case value.ShortTag() == "!!bool":
		return s, fmt.Errorf("sysctl %q: write 1 or 0, not %s", name, value.Value)
	case isNull(value):
		return s, fmt.Errorf("sysctl %q: a value is needed, a text or a number", name)
	case err != nil:
		return s, fmt.Errorf("sysctl %q: %w", name, err)
	}
	s.Value = strings.Join(strings.Fields(value.Value), " ")
	return s, nil
}

func checkSysctlValue(value string) error {
	switch {
	case strings.TrimSpace(value) == "":
		return errors.New("a value is needed, a text or a number")
	case len(value) >= maxSysctlValue:
		return fmt.Errorf("a value of %d bytes, more than the kernel takes", len(value))
	case strings.ContainsAny(value, "\n\x00"):
		return errors.New("a value goes on one line")
	}
	return nil
}
