// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package freeport has ports for servers that tests start, kill, and start again.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

var (
	mu sync.Mutex
	// last is the last port that this process has tried, and taken are the listeners of those that it got.
	last  = 10_000 + rand.IntN(20_000)
	taken []net.Listener
)

// Get returns a port of 127.0.0.1 that is free, and stays so for the process until it ends: its server uses the port
// later, and again after it was killed. It is below those that clients get as their own, from 32768 on. Other processes
// that ask see by a listener on another address that the port is taken.
func Get() (port int, err error) {
	mu.Lock()
	defer mu.Unlock()
	for range 1000 {
		last++
		var mark, free net.Listener
		if mark, err = net.Listen("tcp", fmt.Sprint("127.0.0.2:", last)); err != nil {
			continue
		}
		if free, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", last)); err == nil {
			taken = append(taken, mark)
			return last, free.Close()
		}
		_ = mark.Close() // nothing was written
	}
	return 0, err
}
