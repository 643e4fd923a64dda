// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	client "github.com/prometheus/client_golang/prometheus"
)

// DefaultNamespace is the prefix of the names of the metrics, unless [WithNamespace] sets another.
const DefaultNamespace = "statekeel"

// Option changes what [New] returns.
type Option func(*settings)

type settings struct {
	namespace   string
	constLabels map[string]string
	noClassic   bool
}

// WithNamespace sets the prefix of the names of all metrics, which is followed by "_": letters,
// digits and underscores, not beginning with a digit. The dashboard and the alert rules use
// [DefaultNamespace].
func WithNamespace(namespace string) Option {
	return func(s *settings) { s.namespace = namespace }
}

// WithConstLabels adds labels to all metrics, such as the name of the program if several share a
// registry. Names must be valid label names of Prometheus, and not those of the metrics' own
// labels. Several calls add up; for one name the last wins. The map is copied.
func WithConstLabels(labels map[string]string) Option {
	labels = maps.Clone(labels)
	return func(s *settings) {
		if s.constLabels == nil {
			s.constLabels = map[string]string{}
		}
		maps.Copy(s.constLabels, labels)
	}
}

// WithoutClassicBuckets exports native histograms only, whose buckets are 9 % wide; Prometheus stores them if
// configured (scrape_native_histograms: true). A reader without support for them gets the count and the sum of each
// histogram. Classic buckets are at every fourth power of two.
func WithoutClassicBuckets() Option {
	return func(s *settings) { s.noClassic = true }
}

var (
	identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	ownLabels  = []string{labelReconciler, labelOperation, labelResult, labelState, "le", "quantile"}
)

// settingsOf returns the settings of a collector whose metrics have labels of these names. The error joins
// everything that is wrong.
func settingsOf(options []Option, labels ...string) (*settings, error) {
	s := &settings{namespace: DefaultNamespace}
	for _, option := range options {
		option(s)
	}
	err := s.validate()
	for _, label := range labels {
		if _, taken := s.constLabels[label]; taken {
			err = errors.Join(err, fmt.Errorf("constant label %q: the metrics have a label of that name", label))
		}
	}
	return s, err
}

// desc returns the description of a metric.
func (s *settings) desc(name, help string, labels ...string) *client.Desc {
	return client.NewDesc(client.BuildFQName(s.namespace, "", name), help, labels, s.constLabels)
}

// validate returns an error that joins everything that is wrong.
func (s *settings) validate() error {
	var errs []error
	if !identifier.MatchString(s.namespace) {
		errs = append(errs, fmt.Errorf("namespace %q: must be letters, digits and underscores, no digit first", s.namespace))
	}
	for _, name := range slices.Sorted(maps.Keys(s.constLabels)) {
		switch {
		case !identifier.MatchString(name) || strings.HasPrefix(name, "__"):
			errs = append(errs, fmt.Errorf("constant label %q: must be letters, digits and underscores, no digit and not two underscores first", name))
		case slices.Contains(ownLabels, name):
			errs = append(errs, fmt.Errorf("constant label %q: the metrics have a label of that name", name))
		}
		if value := s.constLabels[name]; !utf8.ValidString(value) {
			errs = append(errs, fmt.Errorf("constant label %q: value %q is not UTF-8", name, value))
		}
	}
	return errors.Join(errs...)
}
