package telemetry

import (
	"fmt"
	"io"
	"maps"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// A Gauge is a family of numbers that go up and down. A family without samples is
// written with its help all the same, so that nothing to tell differs from not asked.
type Gauge struct {
	Name    string // with its unit, such as madeira_source_read_timestamp_seconds
	Help    string // what it says and what to do, in one line
	Samples []Sample
}

// A Sample is one number. No label may hold a secret.
type Sample struct {
	Labels map[string]string
	Value  float64 // of what is counted, or seconds
}

// WriteMetrics writes gauges in the text format of Prometheus, in the order they are
// given, the samples of each in that of their list.
func WriteMetrics(w io.Writer, gauges []Gauge) error {
	for _, g := range gauges {
		if len(g.Samples) == 0 {
			if _, err := fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n", g.Name, g.Help, g.Name); err != nil {
				return fmt.Errorf("write the metric %s: %w", g.Name, err)
			}
			continue
		}
		if _, err := expfmt.MetricFamilyToText(w, family(g)); err != nil {
			return fmt.Errorf("write the metric %s: %w", g.Name, err)
		}
	}
	return nil
}

func family(g Gauge) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: &g.Name, Help: &g.Help, Type: dto.MetricType_GAUGE.Enum()}
	for _, s := range g.Samples {
		m := &dto.Metric{Gauge: &dto.Gauge{Value: &s.Value}}
		for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
			value := s.Labels[name]
			m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &value})
		}
		f.Metric = append(f.Metric, m)
	}
	return f
}
