package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"madeira/jobs/step"
)

// Type returns the step type "notify".
func Type() step.Type {
	return step.Type{
		Light:   true,
		Name:    "notify",
		Outputs: []step.Field{{Name: "subject", Type: step.TextValue, Doc: "First line of the message."}},
		Runner:  composer{},
	}
}

type settings struct {
	Channel  string            `json:"channel"`
	Template string            `json:"template"`
	Subject  string            `json:"subject"`
	Text     string            `json:"text"`
	Summary  json.RawMessage   `json:"summary"`
	Attach   []json.RawMessage `json:"attach"`
}

// A body is a message as it is kept until it is delivered, and what a webhook
// gets as "data".
type body struct {
	Job         string          `json:"job"`
	UpstreamKey string          `json:"upstream_key,omitempty"`
	Version     int             `json:"version"`
	Run         string          `json:"run"`
	Subject     string          `json:"subject"`
	Text        string          `json:"text"`
	Summary     json.RawMessage `json:"summary,omitempty"`
	ByHand      []string        `json:"set_by_hand,omitempty"`
	Attachments []attachment    `json:"attachments,omitempty"`
}

// An attachment says what was kept for the run, by digest. The bytes stay where
// they are: account numbers do not go into chats.
type attachment struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Size   int64  `json:"size_bytes"`
	Rows   *int64 `json:"rows,omitempty"`
}

type composer struct{}

// Run composes the message. It fails only for settings that no repetition mends.
func (composer) Run(_ context.Context, in step.Input) (step.Output, error) {
	var set settings
	if err := json.Unmarshal(in.Settings, &set); err != nil {
		return step.Output{}, step.Permanent(fmt.Errorf("read the settings of notify: %w", err))
	}
	if set.Template == "" {
		set.Template = templateReconciliation
	}
	b, err := compose(in.Task, set)
	if err != nil {
		return step.Output{}, step.Permanent(fmt.Errorf("compose a message to %s: %w", set.Channel, err))
	}
	b.tellByHand(in.ByHand)
	raw, err := json.Marshal(b)
	if err != nil {
		return step.Output{}, step.Permanent(err)
	}
	return step.Output{
		Values:  map[string]any{"subject": b.Subject},
		Report:  "to " + set.Channel + ": " + b.Subject,
		Effects: []step.Effect{step.Message{Channel: set.Channel, Template: set.Template, Body: raw}},
	}, nil
}

func compose(t step.Task, set settings) (body, error) {
	b := body{Job: t.Job, UpstreamKey: t.Key, Version: t.Version, Run: t.Run, Subject: set.Subject}
	if b.Subject == "" {
		b.Subject = strings.TrimSpace(t.Job + " " + t.Key)
	}
	for _, raw := range set.Attach {
		a, ok, err := attached(raw)
		if err != nil {
			return body{}, err
		}
		if ok {
			b.Attachments = append(b.Attachments, a)
		}
	}
	if set.Template == templateText {
		b.Text = set.Text
		return b, nil
	}
	if len(set.Summary) > 0 && string(set.Summary) != "null" {
		b.Summary = set.Summary
	}
	var err error
	b.Text, err = reconciliationText(b.Summary)
	return b, err
}

// tellByHand says what was set by hand, in the text as well: a person who reads it
// should not take the result for what the job alone has made of its sources.
func (b *body) tellByHand(lines []string) {
	b.ByHand = lines
	for _, line := range lines {
		b.Text += "\nset by hand: " + line
	}
	b.Text = strings.TrimPrefix(b.Text, "\n")
}

// attached reads a file or dataset; ok is false for one that was not made.
func attached(raw json.RawMessage) (attachment, bool, error) {
	var ref struct {
		File    string `json:"file"`
		Dataset string `json:"dataset"`
		Name    string `json:"name"`
		Size    int64  `json:"size_bytes"`
		Rows    int64  `json:"rows"`
	}
	if string(raw) == "null" {
		return attachment{}, false, nil
	}
	if err := json.Unmarshal(raw, &ref); err != nil {
		return attachment{}, false, fmt.Errorf("attach: %w", err)
	}
	if ref.Dataset != "" {
		return attachment{Name: "dataset", Digest: ref.Dataset, Size: ref.Size, Rows: &ref.Rows}, true, nil
	}
	return attachment{Name: ref.Name, Digest: ref.File, Size: ref.Size}, ref.File != "", nil
}
