package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

const someSummary = `{
  "categories": {"missing_left": {"CNY": {"count": 1, "left": "0.00", "right": "15.55", "delta": "-15.55"}}},
  "matched": {"CNY": {"count": 6, "amount": "1640.50"}, "JPY": {"count": 1, "amount": "8800"}},
  "proof": {"CNY": {"left": "1640.50", "right": "1656.05", "delta": "-15.55", "breaks": "-15.55"}},
  "left_lines": 7, "right_lines": 8}`

func composed(t *testing.T, settings string) (step.Message, body) {
	t.Helper()
	out, err := steptest.New(t).Run(Type(), settings)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Effects) != 1 {
		t.Fatalf("%d effects, want one message", len(out.Effects))
	}
	message := out.Effects[0].(step.Message)
	var b body
	if err := json.Unmarshal(message.Body, &b); err != nil {
		t.Fatal(err)
	}
	return message, b
}

func TestNotify_TellsWhatMatchedAndWhatDidNot(t *testing.T) {
	t.Parallel()
	message, b := composed(t, `{"channel": "finance", "subject": "October", "summary": `+someSummary+`,
		"attach": [{"dataset": "sha256:aa", "rows": 12, "size_bytes": 900}, null]}`)
	want := `matched 7 of 7 lines on the left and 8 on the right: CNY 1640.50, JPY 8800
breaks: missing_left 1 (CNY -15.55)
CNY: left 1640.50, right 1656.05, difference -15.55`
	if b.Text != want {
		t.Errorf("text:\n%s\nwant:\n%s", b.Text, want)
	}
	if message.Channel != "finance" || message.Template != "reconciliation" || b.Subject != "October" {
		t.Errorf("message %+v, subject %q", message, b.Subject)
	}
	if len(b.Attachments) != 1 || b.Attachments[0].Digest != "sha256:aa" || *b.Attachments[0].Rows != 12 {
		t.Errorf("attachments %+v, want the dataset and not the one that was not made", b.Attachments)
	}
}

func TestNotify_TellsWhatWasSetByHand(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	for settings, want := range map[string]string{
		`{"channel": "finance", "template": "text", "text": "all is well"}`: "all is well\nset by hand: version 3, by ann: bill.path\nset by hand: version 2, by bob: input month",
		`{"channel": "finance", "template": "text"}`:                        "set by hand: version 3, by ann: bill.path\nset by hand: version 2, by bob: input month",
		`{"channel": "finance"}`:                                            "The reconciliation has no result: a step before it failed.\nset by hand: version 3, by ann: bill.path\nset by hand: version 2, by bob: input month",
	} {
		in := kit.Input(settings)
		in.ByHand = []string{"version 3, by ann: bill.path", "version 2, by bob: input month"}
		out, err := steptest.Run(t, Type(), in)
		if err != nil {
			t.Fatal(err)
		}
		var b body
		if err := json.Unmarshal(out.Effects[0].(step.Message).Body, &b); err != nil {
			t.Fatal(err)
		}
		if b.Text != want || strings.Join(b.ByHand, "|") != strings.Join(in.ByHand, "|") {
			t.Errorf("%s: text %q, set_by_hand %q, want %q and %q", settings, b.Text, b.ByHand, want, in.ByHand)
		}
	}
	if _, b := composed(t, `{"channel": "finance", "template": "text", "text": "x"}`); b.Text != "x" || b.ByHand != nil {
		t.Errorf("text %q, set_by_hand %q where nothing was set, want x and none", b.Text, b.ByHand)
	}
}

func TestNotify_SaysSoWhenThereIsNoResult(t *testing.T) {
	t.Parallel()
	_, b := composed(t, `{"channel": "finance", "summary": null}`)
	if !strings.Contains(b.Text, "a step before it failed") {
		t.Errorf("text %q does not say that a step failed", b.Text)
	}
	if b.Subject != "test test/1" {
		t.Errorf("subject %q, want job and key", b.Subject)
	}
}

// A summary that would be too large leaves its categories out; that is not the
// same as none.
func TestNotify_DoesNotTakeASummaryThatIsCutForOneWithoutBreaks(t *testing.T) {
	t.Parallel()
	for categories, want := range map[string]string{"null": "see the attached breaks", "{}": "no breaks"} {
		_, b := composed(t, `{"channel": "finance", "summary": {"categories": `+categories+`, "matched": {}, "proof": {}}}`)
		if !strings.Contains(b.Text, want) {
			t.Errorf("categories %s: text %q, want %q in it", categories, b.Text, want)
		}
	}
}

func TestNotify_ComposesTheSameMessageEachTime(t *testing.T) {
	t.Parallel()
	settings := `{"channel": "finance", "summary": ` + someSummary + `}`
	first, _ := composed(t, settings)
	second, _ := composed(t, settings)
	if string(first.Body) != string(second.Body) {
		t.Errorf("bodies differ:\n%s\n%s", first.Body, second.Body)
	}
}

// The example of the Standard Webhooks specification.
func TestSign_FollowsStandardWebhooks(t *testing.T) {
	t.Parallel()
	secret := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	got, err := sign([]string{secret, secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if err != nil {
		t.Fatal(err)
	}
	one := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if want := one + " " + one; got != want {
		t.Errorf("sign = %q, want %q", got, want)
	}
	if _, err := sign([]string{"whsec_!"}, "id", "1", nil); err == nil {
		t.Error("a secret that is not base64 was taken")
	}
}

// A receiver answers with the codes it was given, and then 204.
type receiver struct {
	mu      sync.Mutex
	answers []int
	ids     []string
	headers http.Header
	body    []byte
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, req.Header.Get("Webhook-Id"))
	r.headers = req.Header
	r.body, _ = io.ReadAll(req.Body)
	code := http.StatusNoContent
	if len(r.answers) > 0 {
		code, r.answers = r.answers[0], r.answers[1:]
	}
	w.Header().Set("Retry-After", "7")
	w.WriteHeader(code)
}

func deliver(t *testing.T, r *receiver) error {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	kit := steptest.New(t)
	kit.Channels["hook"] = step.Channel{Name: "hook", Type: "webhook", Settings: json.RawMessage(fmt.Sprintf(`{"type": "webhook", "url": %q, "secrets": ["topsecret"]}`, server.URL))}
	_, err := kit.Run(Deliver(io.Discard), `{"channel": "hook", "template": "text", "body": {"subject": "hello", "text": "world"}}`)
	return err
}

func TestDeliver_SignsWhatItPosts(t *testing.T) {
	t.Parallel()
	r := &receiver{}
	if err := deliver(t, r); err != nil {
		t.Fatal(err)
	}
	id, timestamp := r.headers.Get("Webhook-Id"), r.headers.Get("Webhook-Timestamp")
	want, err := sign([]string{"topsecret"}, id, timestamp, r.body)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.headers.Get("Webhook-Signature"); got != want {
		t.Errorf("signature %q, want %q", got, want)
	}
	if !strings.Contains(string(r.body), `"type":"madeira.text"`) || !strings.Contains(string(r.body), `"subject":"hello"`) {
		t.Errorf("body %s lacks type or data", r.body)
	}
}

func TestFault_F64_AnswersDecideWhetherAMessageIsTriedAgain(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{
		200: "delivered", 204: "delivered", 302: "permanent", 400: "permanent", 404: "permanent", 410: "permanent",
		408: "again", 429: "later", 500: "again", 502: "again", 503: "later",
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			err := deliver(t, &receiver{answers: []int{code}})
			if got := kindOf(err); got != want {
				t.Errorf("answer %d: %s (%v), want %s", code, got, err, want)
			}
		})
	}
}

func kindOf(err error) string {
	var permanent *step.PermanentError
	var later *step.RetryAfterError
	switch {
	case err == nil:
		return "delivered"
	case errors.As(err, &permanent):
		return "permanent"
	case errors.As(err, &later) && later.After == 7*time.Second:
		return "later"
	}
	return "again"
}

func TestDeliver_SendsEveryAttemptUnderOneID(t *testing.T) {
	t.Parallel()
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	kit := steptest.New(t)
	kit.Channels["hook"] = step.Channel{Name: "hook", Type: "webhook", Settings: json.RawMessage(fmt.Sprintf(`{"url": %q, "secrets": ["topsecret"]}`, server.URL))}
	in := kit.Input(`{"channel": "hook", "template": "text", "body": {}}`)
	kit.Repeat(Deliver(io.Discard), in, func() any {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.ids[len(r.ids)-1]
	})
}

func TestDeliver_WritesToALogLineByLine(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	kit := steptest.New(t)
	kit.Channels["finance"] = step.Channel{Name: "finance", Type: "log"}
	_, err := kit.Run(Deliver(&log), `{"channel": "finance", "template": "text", "body": {"subject": "October", "text": "one\ntwo\n"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if want := "finance: October\nfinance: one\nfinance: two\n"; log.String() != want {
		t.Errorf("log %q, want %q", log.String(), want)
	}
}
