package telemetry_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"madeira/engine/telemetry"
)

const secret = `s3cr3t/p+ss "wörd"`

func TestHide_FindsASecretInEveryForm(t *testing.T) {
	t.Parallel()
	mask := telemetry.NewMask(secret, "")
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"as it is":     "login with " + secret + " refused",
		"JSON":         string(quoted),
		"query":        "https://bank/?token=" + url.QueryEscape(secret),
		"path":         "https://bank/" + url.PathEscape(secret) + "/x",
		"user":         (&url.URL{Scheme: "https", User: url.UserPassword("me", secret), Host: "bank"}).String(),
		"hexadecimal":  hex.EncodeToString([]byte(secret)),
		"base64":       base64.StdEncoding.EncodeToString([]byte(secret)),
		"basic auth":   "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+secret)),
		"basic auth 2": "Basic " + base64.StdEncoding.EncodeToString([]byte("you:"+secret+"\n")),
		"base64 URL":   base64.RawURLEncoding.EncodeToString([]byte("a" + secret + "b")),
	} {
		got := mask.Hide(text)
		if !strings.Contains(got, "***") {
			t.Errorf("%s: %s is left as it is", name, got)
		}
		if strings.Contains(got, "s3cr3t") {
			t.Errorf("%s: the secret is still in %s", name, got)
		}
	}
}

func TestHide_LeavesOtherTextAlone(t *testing.T) {
	t.Parallel()
	const text = "3 rows rejected, a1b2"
	for _, mask := range []*telemetry.Mask{nil, {}, telemetry.NewMask(), telemetry.NewMask("", "a1b"), telemetry.NewMask(secret)} {
		if got := mask.Hide(text); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

func TestHide_OfASecretInsideAnotherHidesTheLongerOne(t *testing.T) {
	t.Parallel()
	if got := telemetry.NewMask("pass", "password-1").Hide("password-1 pass"); got != "*** ***" {
		t.Errorf("got %q, want %q", got, "*** ***")
	}
}

func TestHide_FindsASecretAnywhereInsideBase64(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-zA-Z0-9+/]{10,40}`).Draw(t, "secret")
		before := rapid.SliceOf(rapid.Byte()).Draw(t, "before")
		after := rapid.SliceOf(rapid.Byte()).Draw(t, "after")
		text := base64.StdEncoding.EncodeToString([]byte(string(before) + secret + string(after)))
		if got := telemetry.NewMask(secret).Hide(text); !strings.Contains(got, "***") {
			t.Fatalf("%s is left as it is", got)
		}
	})
}

func TestHandler_HidesSecretsEverywhereBeforeItCuts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(telemetry.NewHandler(slog.NewJSONHandler(&out, nil), telemetry.NewMask(secret)))
	log.With("with", secret).WithGroup("g").Error("message "+secret,
		"error", fmt.Errorf("dial: %w", errors.New(secret)),
		slog.Group("deep", "x", secret), "any", []string{secret}, "n", 3,
		"long", strings.Repeat("x", 4088)+secret+strings.Repeat("y", 1<<20))
	if strings.Contains(out.String(), "s3cr3t") {
		t.Errorf("the secret is in the log: %s", out.String())
	}
	if n := strings.Count(out.String(), "***"); n < 5 {
		t.Errorf("hidden %d times, want 5 or more: %.2000s", n, out.String())
	}
	if out.Len() > 10<<10 {
		t.Errorf("the line has %d bytes", out.Len())
	}
	if !strings.Contains(out.String(), `"n":3`) {
		t.Errorf("numbers are not kept: %.500s", out.String())
	}
}

func TestHandler_KeepsTheLevelOfTheNextOne(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(telemetry.NewHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}), telemetry.NewMask()))
	log.Info("quiet")
	if out.Len() != 0 {
		t.Errorf("logged %q", out.String())
	}
}
