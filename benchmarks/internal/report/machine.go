// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Machine describes the computer on which a series ran.
type Machine struct {
	// CPU is the model; "" if the system does not report it.
	CPU string
	// Cores is the number of logical cores that Go uses.
	Cores int
	// MemoryGiB is the memory in GiB; 0 if the system does not report it.
	MemoryGiB float64
	// Go is the version of Go, the operating system and the architecture.
	Go string
	// Store is the module and version of statedb, on which all contenders run and whose reconciler is the
	// peer; "" if the binary does not tell.
	Store string
}

// ThisMachine describes the current machine.
func ThisMachine() Machine {
	m := Machine{
		CPU:   fieldOf("/proc/cpuinfo", "model name"),
		Cores: runtime.GOMAXPROCS(0),
		Go:    fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		m.Store = linked(info, "github.com/cilium/statedb")
	}
	kib := strings.TrimSuffix(fieldOf("/proc/meminfo", "MemTotal"), " kB")
	if n, err := strconv.ParseFloat(kib, 64); err == nil {
		m.MemoryGiB = n / (1 << 20)
	}
	return m
}

// String renders the machine in one line.
func (m Machine) String() string {
	cpu := m.CPU
	if cpu == "" {
		cpu = "unknown CPU"
	}
	s := fmt.Sprintf("%s, %d cores", cpu, m.Cores)
	if m.MemoryGiB > 0 {
		s += fmt.Sprintf(", %.0f GiB", m.MemoryGiB)
	}
	s += ", " + m.Go
	if m.Store != "" {
		s += ", " + m.Store
	}
	return s
}

// linked returns the last element of a module's path and the version that a binary links; "" if it links
// none.
func linked(info *debug.BuildInfo, module string) string {
	for _, dep := range info.Deps {
		if dep.Path == module {
			return path.Base(module) + " " + dep.Version
		}
	}
	return ""
}

// fieldOf returns the value of the first "name: value" line of a file; "" if there is no such line or file,
// as on other systems than Linux.
func fieldOf(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, found := strings.Cut(lines.Text(), ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
