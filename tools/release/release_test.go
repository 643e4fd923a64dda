// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files, and returns their folder.
func tree(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	rootMod = "module " + root + "\n\ngo 1.25.0\n"
	subMod  = "module " + root + "/a\n\ngo 1.25.0\n\nreplace " + root + " => ../\n\nrequire " + root + " v0.0.0\n"
)

func TestModuleIsTaggedAfterThoseItRequires(t *testing.T) {
	all, err := modules(tree(t, map[string]string{"go.mod": rootMod, "a/go.mod": subMod,
		"tools/go.mod": "module " + root + "/tools\n\ngo 1.25.0\n\nrequire " + root + "/a v0.0.0\n"}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		if m.released() {
			got = append(got, m.tag("v1.2.3"))
		} else {
			got = append(got, "not released: "+m.path)
		}
	}
	want := "v1.2.3 a/v1.2.3 not released: " + root + "/tools"
	if strings.Join(got, " ") != want {
		t.Errorf("the order is %v, want %s", got, want)
	}
}

func TestModulesThatRequireEachOtherAreAnError(t *testing.T) {
	_, err := modules(tree(t, map[string]string{"go.mod": rootMod + "\nrequire " + root + "/a v0.0.0\n", "a/go.mod": subMod}))
	if err == nil || !strings.Contains(err.Error(), "in a cycle") {
		t.Errorf("the error is %v", err)
	}
}

func TestReleasedModuleRequiresOursByVersionWithoutReplace(t *testing.T) {
	dir := tree(t, map[string]string{"go.mod": rootMod, "a/go.mod": subMod})
	all, err := modules(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := all[1].require("v0.1.0"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "a", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(data); strings.Contains(got, "replace") || !strings.Contains(got, "require "+root+" v0.1.0") {
		t.Errorf("go.mod is\n%s", got)
	}
}

func TestModuleThatReplacesAnotherIsNotReleased(t *testing.T) {
	all, err := modules(tree(t, map[string]string{"go.mod": rootMod + "\nreplace example.com/x => example.com/y v1.0.0\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := all[0].require("v0.1.0"); err == nil || !strings.Contains(err.Error(), "replaces example.com/x") {
		t.Errorf("the error is %v", err)
	}
}

func TestReleaseHasItsDateAndNoWordsAboutTheTimeBefore(t *testing.T) {
	dir := tree(t, map[string]string{
		"CHANGELOG.md": "# Changelog\n\n## 0.1.0 (unreleased)\n\nNew.\n\n## 0.0.9 (2026-01-01)\n",
		"README.md": "a\n\n<!-- until the first release -->\nno version\n<!-- end -->\nb\n" +
			"<!-- until the first release -->\nx\n<!-- end -->\n\nc\n",
	})
	if err := editPages(dir, "v0.1.0", "2026-12-24"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"CHANGELOG.md": "# Changelog\n\n## 0.1.0 (2026-12-24)\n\nNew.\n\n## 0.0.9 (2026-01-01)\n",
		"README.md":    "a\n\nb\nc\n",
	} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != want {
			t.Errorf("%s is %q, want %q: %v", name, data, want, err)
		}
	}
	if err := editPages(dir, "v0.1.0", "2026-12-25"); err == nil || !strings.Contains(err.Error(), "has 0 sections") {
		t.Errorf("the error of a second release without a section is %v", err)
	}
}
