// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Longerrors has objects fail with long, distinct texts, and fails itself if the process holds
// more memory, or the page and the commands take longer to answer, than promised:
//
//	go run ./internal/longerrors
//
// It is no workload of the comparison: the peers keep whole texts, which no machine has the
// memory for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// The promises, for 10,000 objects and texts of 10 MB.
const (
	maxBeyondRows = 256 << 20
	maxAnswer     = 300 * time.Millisecond
)

// config is how much is done. The zero value is of no use.
type config struct {
	objects uint64
	// text is how many bytes an error has.
	text int
	// window is for how long the loop goes on failing after it has tried each object.
	window time.Duration
}

func main() {
	cfg := config{}
	flag.Uint64Var(&cfg.objects, "objects", 10_000, "how many objects fail")
	flag.IntVar(&cfg.text, "text", 10<<20, "`bytes` of each error")
	flag.DurationVar(&cfg.window, "window", 20*time.Second, "for how long they fail again")
	flag.Parse()
	r, err := measure(context.Background(), cfg)
	if r != nil {
		fmt.Print(r)
		err = errors.Join(err, r.bounds())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "longerrors:", err)
		os.Exit(1)
	}
}
