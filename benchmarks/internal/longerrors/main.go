// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Longerrors makes objects fail with long, distinct texts. It exits with an error if the process holds more
// memory, or if the page and the commands answer more slowly, than promised:
//
//	go run ./internal/longerrors
//
// It is not part of the comparison: the peers keep the full texts, which would need more memory than
// machines have.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// The promised limits, for 10,000 objects and texts of 10 MB.
const (
	maxBeyondRows = 256 << 20
	maxAnswer     = 300 * time.Millisecond
)

// config is the size of a run. The zero value is not valid.
type config struct {
	objects uint64
	// text is the length of an error in bytes.
	text int
	// window is how long the loop continues to fail after it has tried each object.
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
