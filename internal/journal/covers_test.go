package journal

import (
	"encoding/json"
	"testing"
)

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		recorded, text string
		want           bool
	}{
		{"plain", "plain", true},
		{"plain", "other", false},
		{"to [EMAIL_1].", "to ada@example.com.", true},
		{"to [EMAIL_1].", "to [EMAIL_1].", true},
		{"to [EMAIL_1].", "to [EMAIL_2].", false},
		{"to [EMAIL_1].", "to ada@example.com!", false},
		{"to [EMAIL_1].", "from ada@example.com.", false},
		{"[EMAIL_1] and [CREDIT_CARD_22]", "a@b.c and 4111", true},
		{"[EMAIL_1] and [CREDIT_CARD_22]", "[EMAIL_1] and 4111", true},
		{"[EMAIL_1] and [CREDIT_CARD_22]", "a@b.c, 4111", false},
		{"[EMAIL_1][EMAIL_2]", "a@b.cd@e.f", true},
		{"[EMAIL_1][EMAIL_2]", "[EMAIL_1]d@e.f", true},
		{"list[0]", "list[1]", false},
		{"?to=%5BPHONE_1%5D&x", "?to=%2B44%2020%207946%200958&x", true},
		{"?to=%5BPHONE_1%5D&x", "?to=%5BPHONE_2%5D&x", false},
		{"key ghp_pii_1s.", "key ghp_0123456789.", true},
		{"to pii_1e@d1.pii.invalid.", "to ada@example.com.", true},
		{"from 240.117.103.142:80", "from 198.51.100.7:80", true},
		{"from 240.117.103.142:80", "from 198.51.100.7:81", false},
		{"from 240.117.103.142:80", "from 240.117.103.143:80", false},
		{"::ffff:240.117.103.142", "::ffff:198.51.100.7", true},
		{"[3fff:1a2:3b4c:5d6e::7f8a]", "[2001:db8::17]", true},
		{"3FFF%3A01A2%3A3B4C%3A5D6E%3A0000%3A0000%3A0000%3A7F8A!", "2001%3ADB8!", true},
		{"3fff:1a2:3b4c:5d6e::7f8a", "3fff:1a2:3b4c:5d6e::7f8b", false},
		{"240.17.3.142", "198.51.100.7", false},
		{"[EMAIL_1]", "", true},
		{`{"to":"[EMAIL_1]","n":"[PHONE_1]"}`, `{"to":"a,b","n":2025550143}`, true},
		{`{"to":"[EMAIL_1]","n":"[PHONE_1]"}`, `{"to":"a,b","n":"2025550143"}`, true},
		{`{"to":"[EMAIL_1]","n":"[PHONE_1]"}`, `{"to":"a,b","m":2025550143}`, false},
	} {
		if got := Covers(c.recorded, c.text); got != c.want {
			t.Errorf("Covers(%q, %q) = %t", c.recorded, c.text, got)
		}
	}
}

func TestCoversJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		recorded, text string
		want           bool
	}{
		{`{"b":[1,true,null,"[EMAIL_1]"],"a":"x"}`, `{"a":"x","b":[1,true,null,"ada@example.com"]}`, true},
		{`{"b":[1,true,null,"[EMAIL_1]"]}`, `{"b":[1,true,null,{}]}`, false},
		{`[1]`, `[1.0]`, true},
		{`[9007199254740993]`, `[9007199254740992]`, true}, // Older releases recorded numbers as programs had them, rounded to doubles.
		{`[1]`, `[1.5]`, false},
		{`[1e400]`, `["1e400"]`, true},
		{`[1e400]`, `[1e401]`, false},
		{`["[PHONE_1]"]`, `[2025550143]`, true},
		{`["a [PHONE_1]"]`, `[2025550143]`, false},
		{`{"base64":"dG8gW0VNQUlMXzFd"}`, `{"base64":"dG8gYW5uQGV4YW1wbGUuY29t"}`, true},
		{`{"base64":"dG8gW0VNQUlMXzFd"}`, `{"base64":"bm8gYW5uQGV4YW1wbGUuY29t"}`, false},
		{`[1]`, `[1,2]`, false},
		{`{"[EMAIL_1]":1}`, `{"ada@example.com":1}`, true},
		{`{"[EMAIL_1]":1}`, `{"ada@example.com":1,"b":2}`, false},
		{`{"a":1}`, `{"b":1}`, false},
		{``, `null`, true},
		{`{`, `{`, true},
		{`{`, `{}`, false},
		{`{}`, `{`, false},
	} {
		if got := CoversJSON(json.RawMessage(c.recorded), json.RawMessage(c.text)); got != c.want {
			t.Errorf("CoversJSON(%s, %s) = %t", c.recorded, c.text, got)
		}
	}
}
