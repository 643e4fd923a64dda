// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/hive/script"

	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/debug"
)

// questions returns the questions that a user may ask of the page and of the commands, about an object among
// others, by name. Each returns the size of its answer in bytes.
func (s *system) questions(ctx context.Context, id uint64) (map[string]func() (int, error), error) {
	all := map[string]func() (int, error){}
	name := s.loop.ID().String()
	page := debug.New(&s.registry)
	for _, path := range []string{
		"", "show?", "objects?limit=1000", "objects?status=Error", "journal?limit=1000", "journal?key=" + key(id), "explain?key=" + key(id),
	} {
		for _, format := range []string{"html", "json", "live"} {
			target := "/debug/" + path
			if path != "" {
				target += "&reconciler=" + name + "&format=" + format
			} else {
				target += "?format=" + format
			}
			all["page: "+path+" "+format] = func() (int, error) {
				w := httptest.NewRecorder()
				page.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil))
				if w.Code != http.StatusOK {
					return 0, fmt.Errorf("%s: %d %.200s", target, w.Code, w.Body)
				}
				return w.Body.Len(), nil
			}
		}
	}
	engine := &script.Engine{Cmds: commands.New(&s.registry)}
	state, err := script.NewState(ctx, os.TempDir(), nil)
	if err != nil {
		return nil, err
	}
	for _, line := range []string{
		"reconciler", "reconciler/show " + name, "reconciler/explain " + name + " " + key(id),
		"reconciler/objects " + name + " --limit=1000", "reconciler/objects " + name + " --status=Error",
		"reconciler/journal", "reconciler/journal " + name + " --key=" + key(id),
		"reconciler/journal " + name + " --rounds", "reconciler/journal " + name + " --first-failures",
	} {
		for _, format := range []string{"table", "json"} {
			all["command: "+line+" "+format] = func() (int, error) {
				var log strings.Builder
				if err := engine.ExecuteLine(state, line+" --format="+format, &log); err != nil {
					return 0, err
				}
				return len(state.Stdout()), nil
			}
		}
	}
	return all, nil
}

// asked holds the measurements of one question.
type asked struct {
	question string
	// took holds the time of each answer.
	took []time.Duration
	// bytes is the size of the longest answer.
	bytes int
}

func (a *asked) longest() time.Duration { return slices.Max(a.took) }

// The median hardly rises when other programs use the machine too.
func (a *asked) median() time.Duration {
	sorted := slices.Sorted(slices.Values(a.took))
	return sorted[len(sorted)/2]
}

// ask asks all questions in turns until it is stopped.
func (s *system) ask(ctx context.Context, id uint64, done <-chan struct{}) (answers []asked, err error) {
	questions, err := s.questions(ctx, id)
	if err != nil {
		return nil, err
	}
	for question := range questions {
		answers = append(answers, asked{question: question})
	}
	for {
		for i := range answers {
			a := &answers[i]
			begin := time.Now()
			n, err := questions[a.question]()
			if err != nil {
				return answers, err
			}
			a.took = append(a.took, time.Since(begin))
			a.bytes = max(a.bytes, n)
		}
		select {
		case <-done:
			return answers, nil
		default:
		}
	}
}
