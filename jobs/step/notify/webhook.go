package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"madeira/jobs/step"
)

// Limits of one delivery: a receiver that takes longer is tried again later.
const (
	connectTimeout  = 10 * time.Second
	deliveryTimeout = 30 * time.Second
)

type webhookSettings struct {
	URL     string   `json:"url"`
	Secrets []string `json:"secrets"`
}

// post delivers a message as Standard Webhooks says. The id is the same for
// every attempt.
func post(ctx context.Context, in step.Input, channel step.Channel, message step.Message) error {
	var set webhookSettings
	if err := json.Unmarshal(channel.Settings, &set); err != nil {
		return step.Permanent(fmt.Errorf("read the settings of the channel: %w", err))
	}
	payload, err := json.Marshal(map[string]any{
		"type":      "madeira." + message.Template,
		"timestamp": in.Now.UTC().Format(time.RFC3339),
		"data":      message.Body,
	})
	if err != nil {
		return step.Permanent(err)
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, set.URL, bytes.NewReader(payload))
	if err != nil {
		return step.Permanent(fmt.Errorf("address of the webhook: %w", err))
	}
	id, timestamp := messageID(in.Task.Key), strconv.FormatInt(in.Now.Unix(), 10)
	signatures, err := sign(set.Secrets, id, timestamp, payload)
	if err != nil {
		return step.Permanent(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", timestamp)
	req.Header.Set("Webhook-Signature", signatures)
	client, done := newClient()
	defer done()
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return checkAnswer(res)
}

// newClient returns a client for one delivery that follows no redirects and
// takes no proxy from the environment.
func newClient() (*http.Client, func()) {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: connectTimeout,
		ForceAttemptHTTP2:   true,
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client, transport.CloseIdleConnections
}

// messageID makes the id of a message of its key, which may hold any characters.
func messageID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// sign returns one signature for each secret, so that a receiver can change over
// while both are in use.
func sign(secrets []string, id, timestamp string, payload []byte) (string, error) {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		key := []byte(secret)
		if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
			var err error
			if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
				return "", fmt.Errorf("secret %d of the channel begins with whsec_ and is not base64 behind it", i+1)
			}
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(payload)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " "), nil
}

func checkAnswer(res *http.Response) error {
	start, _ := io.ReadAll(io.LimitReader(res.Body, 200))
	err := fmt.Errorf("the answer is %s: %s", res.Status, bytes.ToValidUTF8(bytes.TrimSpace(start), []byte("?")))
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable:
		if seconds, parseErr := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 32); parseErr == nil && seconds > 0 {
			return step.RetryAfter(time.Duration(seconds)*time.Second, err)
		}
		return err
	case res.StatusCode == http.StatusRequestTimeout || res.StatusCode >= 500:
		return err
	}
	return step.PermanentCode("notify.refused", err)
}
