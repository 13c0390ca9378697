package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"madeira/jobs/step"
)

const (
	maxOutputs = 256 << 10 // bytes of all outputs of a step but its report, as JSON
	maxReport  = 64 << 10  // bytes of a report

	// reportOutput is the name under which a report is kept.
	reportOutput = "report"
)

// outputsOf returns the outputs of a step as one JSON object with sorted names.
// When they are too large the error says so and only the report is returned.
func outputsOf(out step.Output, mask func(string) string) (json.RawMessage, error) {
	if len(out.Values) == 0 && out.Report == "" {
		return json.RawMessage("{}"), nil
	}
	values, err := marshalValues(out.Values, mask)
	if err != nil {
		values = map[string]json.RawMessage{}
	}
	if out.Report != "" {
		report, reportErr := marshal(cutReport(mask(out.Report)))
		if reportErr != nil {
			return nil, reportErr
		}
		values[reportOutput] = report
	}
	all, marshalErr := marshal(values)
	if marshalErr != nil {
		return nil, marshalErr
	}
	return all, err
}

func marshalValues(values map[string]any, mask func(string) string) (map[string]json.RawMessage, error) {
	raw, total, largest := map[string]json.RawMessage{}, 0, ""
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name == reportOutput {
			return nil, step.PermanentCode("output.reserved", fmt.Errorf("the output %q is reserved: a step type sets Output.Report", name))
		}
		value, err := marshal(values[name])
		if text, ok := values[name].(string); ok {
			value, err = marshal(mask(text))
		}
		if err != nil {
			return nil, step.PermanentCode("output.invalid", fmt.Errorf("write output %q as JSON: %w", name, err))
		}
		raw[name] = value
		total += len(name) + len(value)
		if largest == "" || len(value) > len(raw[largest]) {
			largest = name
		}
	}
	if total > maxOutputs {
		return nil, step.PermanentCode("output.too_large", fmt.Errorf(
			"the outputs have %d bytes and the limit is %d; the largest is %q with %d: hand large things on as a file or a dataset",
			total, maxOutputs, largest, len(raw[largest])))
	}
	return raw, nil
}

// marshal writes JSON that people can read: without escapes for HTML.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// cutReport keeps the first lines of a report that is too long, and says at its
// end how much is not there.
func cutReport(report string) string {
	if len(report) <= maxReport {
		return report
	}
	const note = "\n… %d lines (%d bytes) of this report are left out; it may have %d bytes\n"
	room := maxReport - len(fmt.Sprintf(note, len(report), len(report), maxReport))
	kept := strings.ToValidUTF8(report[:room], "")
	if i := strings.LastIndexByte(kept, '\n'); i >= 0 {
		kept = kept[:i]
	}
	left := strings.TrimPrefix(report[len(kept):], "\n")
	lines := strings.Count(strings.TrimSuffix(left, "\n"), "\n") + 1
	return kept + fmt.Sprintf(note, lines, len(left), maxReport)
}
