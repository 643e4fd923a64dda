// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy is a folder with modules, as GOPROXY=file:// takes it (go.dev/ref/mod#goproxy-protocol).
type proxy string

// source says where the go command finds the modules of others.
type source bool

const (
	online source = true
	// cached: in the module cache of this machine only.
	cached source = false
)

// environment returns the variables for go commands that use the proxy. Flags of the caller stay: with the same flags, most
// packages of others are compiled already.
func (p proxy) environment(others source, flags string) []string {
	from := "off"
	if others == online {
		from = goEnv("GOPROXY")
	}
	return []string{
		"GOPROXY=file://" + string(p) + ",file://" + filepath.Join(goEnv("GOMODCACHE"), "cache", "download") + "," + from,
		// No database knows the release yet, and without a network none answers.
		"GONOSUMDB=" + root + "," + root + "/*", "GOWORK=off",
		"GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -mod=mod "+flags),
		// The go command keeps an index of each module in the cache, and takes for granted that a version never changes.
		"GODEBUG=goindex=0",
	}
}

func goEnv(name string) string {
	value, err := exec.Command("go", "env", name).Output()
	if err != nil {
		panic(err) // this program was built by it
	}
	return strings.TrimSpace(string(value))
}

// add adds a version of a module. The list of its versions has this one only.
func (p proxy) add(m *aModule, version string) (err error) {
	escaped, err := module.EscapePath(m.path)
	if err != nil {
		return err
	}
	dir := filepath.Join(string(p), escaped, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	goMod, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": goMod} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	return zip.CreateFromDir(archive, module.Version{Path: m.path, Version: version}, m.dir)
}

// command runs a command in a folder. What it prints goes to out, or if that is nil, into the error.
func command(dir string, env []string, out *strings.Builder, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var said strings.Builder
	cmd.Stderr, cmd.Stdout = &said, &said
	if out != nil {
		cmd.Stdout = out
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &said)
	}
	return nil
}

// forget removes the modules of this repository from the module cache, whose folders are not writable.
func forget() error {
	cache := goEnv("GOMODCACHE")
	for _, dir := range []string{filepath.Join(cache, filepath.Dir(root)), filepath.Join(cache, "cache", "download", filepath.Dir(root))} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			return os.Chmod(path, 0o755)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
