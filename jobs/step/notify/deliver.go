package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"madeira/jobs/step"
)

// Deliver returns the task type "deliver". Messages to channels of type log are
// written to log, one at a time, line by line.
func Deliver(log io.Writer) step.Type {
	return step.Type{Name: "deliver", Light: true, Runner: &deliverer{log: log}}
}

type deliverer struct {
	mu  sync.Mutex // of log
	log io.Writer
}

// Run sends one message. What comes back from the receiver decides whether it is
// tried again.
func (d *deliverer) Run(ctx context.Context, in step.Input) (step.Output, error) {
	var message step.Message
	if err := json.Unmarshal(in.Settings, &message); err != nil {
		return step.Output{}, step.Permanent(fmt.Errorf("read a message: %w", err))
	}
	channel, err := in.Channels.Channel(ctx, message.Channel)
	if err != nil {
		return step.Output{}, fmt.Errorf("deliver to %s: %w", message.Channel, err)
	}
	switch channel.Type {
	case "log":
		err = d.print(message)
	case "webhook":
		err = post(ctx, in, channel, message)
	default:
		err = step.Permanent(fmt.Errorf("channels of type %q are not known", channel.Type))
	}
	if err != nil {
		return step.Output{}, fmt.Errorf("deliver to %s: %w", message.Channel, err)
	}
	return step.Output{}, nil
}

func (d *deliverer) print(message step.Message) error {
	var b body
	if err := json.Unmarshal(message.Body, &b); err != nil {
		return step.Permanent(fmt.Errorf("read the message: %w", err))
	}
	lines := append([]string{b.Subject}, strings.Split(strings.TrimRight(b.Text, "\n"), "\n")...)
	var text strings.Builder
	for _, line := range lines {
		if line != "" {
			fmt.Fprintf(&text, "%s: %s\n", message.Channel, line)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := io.WriteString(d.log, text.String())
	return err
}
