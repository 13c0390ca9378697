package telemetry_test

import (
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"madeira/engine/telemetry"
)

func TestWriteMetrics_IsReadAsItWasSaid(t *testing.T) {
	t.Parallel()
	const odd = "a \"b\"\\c\nd 银行.yaml"
	var text strings.Builder
	err := telemetry.WriteMetrics(&text, []telemetry.Gauge{
		{Name: "madeira_empty", Help: "Nothing to tell."},
		{Name: "madeira_files", Help: "Files.", Samples: []telemetry.Sample{{Labels: map[string]string{"file": odd, "job": "a"}, Value: 1.5}, {Value: 2}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	got, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	files := got["madeira_files"].GetMetric()
	if len(files) != 2 || files[0].GetGauge().GetValue() != 1.5 || files[0].GetLabel()[0].GetValue() != odd || files[1].GetGauge().GetValue() != 2 {
		t.Errorf("read %v of\n%s", files, text.String())
	}
	if !strings.Contains(text.String(), "# TYPE madeira_empty gauge\n") {
		t.Errorf("a family without samples is not told of:\n%s", text.String())
	}
}
