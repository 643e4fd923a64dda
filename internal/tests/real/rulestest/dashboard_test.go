// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package rulestest

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dashboard is what the tests read of dashboard.json.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type, Definition string
		}
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ Type, UID string }
	GridPos     struct{ H, W, X, Y int }
	Targets     []target
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                struct{ Type, UID string }
}

// query returns the expression as Prometheus gets it from Grafana, for a dashboard that
// shows everything.
func (q *target) query() string {
	return strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$reconciler", ".*").Replace(q.Expr)
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("../../../../metrics/prometheus/dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.NewDecoder(bytes.NewReader(text)).Decode(&d))
	require.NotEmpty(t, d.Panels)
	return d
}

func TestTheDashboardIsOneThatGrafanaTakes(t *testing.T) {
	d := readDashboard(t)
	assert.NotEmpty(t, d.Title)
	assert.LessOrEqual(t, len(d.UID), 40)
	assert.NotZero(t, d.SchemaVersion)
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		assert.False(t, ids[p.ID], "panel %q has the ID of another", p.Title)
		ids[p.ID] = true
		assert.NotEmpty(t, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				assert.Less(t, x, 24, "panel %q is off the grid", p.Title)
				assert.Empty(t, taken[[2]int{x, y}], "panel %q lies on another", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		assert.NotEmpty(t, p.Targets, p.Title)
		refs := map[string]bool{}
		for _, q := range p.Targets {
			assert.False(t, refs[q.RefID], "%q has two queries %s", p.Title, q.RefID)
			refs[q.RefID] = true
			assert.Equal(t, "prometheus", q.Datasource.Type)
			assert.Equal(t, "${datasource}", q.Datasource.UID)
		}
	}
}

func TestTheVariablesOfTheDashboardAreThere(t *testing.T) {
	d, series := readDashboard(t), known(t)
	variables := map[string]bool{"__rate_interval": true}
	labelValues := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if v.Type != "query" {
			continue
		}
		of := labelValues.FindStringSubmatch(v.Definition)
		require.NotNil(t, of, v.Definition)
		for _, name := range assertNames(t, series, of[1]) {
			assert.Contains(t, series[name], of[2])
		}
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			for _, used := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				assert.True(t, variables[used[1]], "%q: there is no variable %s", p.Title, used[0])
			}
		}
	}
}

// The dashboard has no name that the collector has not, and leaves none out.
func TestTheDashboardShowsEveryMetric(t *testing.T) {
	d, series := readDashboard(t), known(t)
	shown := map[string]bool{}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			for _, name := range assertNames(t, series, q.query()) {
				shown[name] = true
			}
		}
	}
	for _, family := range scraped(t) {
		assert.True(t, shown[family.GetName()], "no panel shows %s", family.GetName())
	}
}

// Whether Prometheus stores native histograms or classic ones, each query comes back with
// numbers, and with the labels that its legend names.
func TestEveryPanelShowsSomething(t *testing.T) {
	d := readDashboard(t)
	legend := regexp.MustCompile(`{{(\w+)}}`)
	for kind, native := range map[string]bool{"native histograms": true, "classic histograms": false} {
		t.Run(kind, func(t *testing.T) {
			s := storageOf(t, loadAll(t, native))
			for _, p := range d.Panels {
				for _, q := range p.Targets {
					matrix := evaluate(t, s, q.query(), time.Hour)
					if !assert.NotEmpty(t, matrix, "%q: %s", p.Title, q.Expr) {
						continue
					}
					for _, series := range matrix {
						for _, named := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
							assert.NotEmpty(t, series.Metric.Get(named[1]), "%q: the legend of %s", p.Title, q.Expr)
						}
						require.NotEmpty(t, series.Floats, "%q: %s", p.Title, q.Expr)
						last := series.Floats[len(series.Floats)-1].F
						assert.False(t, math.IsNaN(last), "%q: %s", p.Title, q.Expr)
						assert.Positive(t, last, "%q: %s", p.Title, q.Expr)
					}
				}
			}
		})
	}
}
