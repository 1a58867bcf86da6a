package detect_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/pii/detect"
)

func std(t testing.TB) *detect.Detector {
	t.Helper()
	d, err := detect.New(detect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// marked returns the text with « and » around each value, and the values as type=value.
func marked(d *detect.Detector, text string) (string, []string) {
	var out strings.Builder
	values, done := []string{}, 0
	for _, s := range d.Find(text) {
		out.WriteString(text[done:s.Start] + "«" + text[s.Start:s.End] + "»")
		values = append(values, s.Type+"="+s.Value)
		done = s.End
	}
	return out.String() + text[done:], values
}

// No part of two overlapping values remains in the text.
func TestOverlap(t *testing.T) {
	t.Parallel()
	d := std(t)
	for _, text := range []string{
		"https://ann:grace@example.com@example.org/", "postgres://app:tK4#x9@mail.example.com@db.example.com/x",
	} {
		got, values := marked(d, text)
		if rest := strings.Join(regexp.MustCompile("«.*?»").Split(got, -1), " "); strings.Contains(rest, "ann") || strings.Contains(rest, "tK4") {
			t.Errorf("%s: %q", got, values)
		}
	}
}

// user:password is found before the address of a data source name, but not before a group of a regular expression.
func TestDataSource(t *testing.T) {
	t.Parallel()
	d := std(t)
	for text, found := range map[string]bool{
		"dsn=app:tK4x9w2Zq@tcp(db.example:3306)/x": true, "app:tK4x9w2Zq@tcp([::1]:3306)/x": true, "app:tK4x9w2Zq@unix(/run/db.sock)/x": true, "app:tK4x9w2Zq@(db)/x": true,
		`m.match(/^From:.*?<?([\w.+-]+)@([\w.-]+)/m)`: false, `/user:(\w+)@(a|b)/`: false, `/x:y+@([a-z]*)/`: false,
	} {
		if got, values := marked(d, text); len(values) > 0 != found {
			t.Errorf("%s: %q", got, values)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	d := std(t)
	for want, value := range map[string]string{
		// EMAIL
		"«Ann.Lee@Example.com» wrote":             "EMAIL=ann.lee@example.com",
		"<«ann+tag@mail.example.co.uk»>, x":       "EMAIL=ann+tag@mail.example.co.uk",
		"to=«ann@example.com»&x=1":                "EMAIL=ann@example.com",
		"Is it «ann@example.com»?":                "EMAIL=ann@example.com",
		"«\"ann lee\"@example.com»":               "EMAIL=\"ann lee\"@example.com",
		"«ann@[192.0.2.1]»":                       "EMAIL=ann@[192.0.2.1]",
		"«jürgen@bücher.example»":                 "EMAIL=jürgen@bücher.example",
		"请写信给«ann@example.com»谢谢":                 "EMAIL=ann@example.com",
		"to «hans.m端ller@m端ller.example»":         "EMAIL=hans.m端ller@m端ller.example",
		"is «ann@exa-mple.co.uk».":                "EMAIL=ann@exa-mple.co.uk",
		"a='«o'neil@example.com»'":                "EMAIL=o'neil@example.com",
		"<b>«ann@example.com»</b>":                "EMAIL=ann@example.com",
		"«ann@example.com»-Office":                "EMAIL=ann@example.com",
		"«ann (at) example (dot) com» or":         "EMAIL=ann@example.com",
		"«ａｎｎ＠ｅｘａｍｐｌｅ．ｃｏｍ»":                       "EMAIL=ann@example.com",
		"mail «ann%40example.com» now":            "EMAIL=ann@example.com",
		"mail «ann%2540example.com» now":          "EMAIL=ann@example.com",
		"mail «ann&#64;example&period;com» now":   "EMAIL=ann@example.com",
		`mail «ann\u0040example.com» now`:         "EMAIL=ann@example.com",
		`{"a":"x\n«ann\u0040example.com»"}`:       "EMAIL=ann@example.com",
		"«an\u200bn@exa\u00admple.com»":           "EMAIL=ann@example.com",
		`{"a":"{\"b\":[\"«ann@example.com»\"]}"}`: "EMAIL=ann@example.com",
		`{"«ann@example.com»":1}`:                 "EMAIL=ann@example.com",
		"data «dG8gYW5uQGV4YW1wbGUuY29t» end":     "EMAIL=dG8gYW5uQGV4YW1wbGUuY29t",
		"/v1/users/«YW5uQGV4YW1wbGUuY29tbQ==»":    "EMAIL=YW5uQGV4YW1wbGUuY29tbQ==",
		"«\"a\\\"b\"@example.com», x":             "EMAIL=\"a\"b\"@example.com",
		"«!#$%&'*+/=?^_`{|}~@example.com»":        "EMAIL=!#$%&'*+/=?^_`{|}~@example.com",
		// PHONE
		"Call «(202) 555-0143»":                                       "PHONE=+12025550143",
		"Call «202.555.0143 ext. 12»":                                 "PHONE=+12025550143;ext=12",
		"Call me at «35078110», please":                               "PHONE=35078110",
		"You can reach us on «612 34 56»":                             "PHONE=6123456",
		"or text him back at: «0412345678»":                           "PHONE=0412345678",
		"My number is «13812345678».":                                 "PHONE=+13812345678",
		"fax «+1 202 555 0143»":                                       "PHONE=+12025550143",
		"«+44 (0)20 7946 0958»,":                                      "PHONE=+442079460958",
		"«0044 20 7946 0958»":                                         "PHONE=+442079460958",
		"«011 44 20 7946 0958»":                                       "PHONE=+442079460958",
		"«＋４４ ２０ ７９４６ ０９５８»":                                          "PHONE=+442079460958",
		"«+44–20–7946–0958»":                                          "PHONE=+442079460958",
		"?tel=«%2B1+202+555+0143»&a=1":                                "PHONE=+12025550143",
		"?tel=«%2B1+%28202%29+555-0143»":                              "PHONE=+12025550143",
		"?card=«4111+1111+1111+1111»&x":                               "CREDIT_CARD=4111111111111111",
		"it is «746f20616e6e406578616d706c652e636f6d».":               "EMAIL=746f20616e6e406578616d706c652e636f6d",
		`it is «ann\u005c\u0075\u0030\u0030\u0034\u0030example.com».`: `EMAIL=ann@example.com`,
		"it is «MTAwLTEwLTIxMjQ=».":                                   "US_SSN=MTAwLTEwLTIxMjQ=",
		"cut: «dG8gYW5uQGV4YW1wbGUuY29tI»":                            "EMAIL=dG8gYW5uQGV4YW1wbGUuY29tI",
		"ring «020 7946 0958»":                                        "PHONE=02079460958",
		"tel «٠٢٠ ٧٩٤٦ ٠٩٥٨»":                                         "PHONE=02079460958",
		`{"mobile":«2025550143»}`:                                     "PHONE=+12025550143",
		`{"contact":{"phones":["«555 0143»"]}}`:                       "PHONE=5550143",
		// US_SSN
		"SSN «536-90-4399»":   "US_SSN=536904399",
		"ssn: «536904399»":    "US_SSN=536904399",
		`{"ssn":«536904399»}`: "US_SSN=536904399",
		// CREDIT_CARD
		"paid with «4111 1111 1111 1111» today": "CREDIT_CARD=4111111111111111",
		"«4111-1111-1111-1111»":                 "CREDIT_CARD=4111111111111111",
		"«3782 822463 10005»":                   "CREDIT_CARD=378282246310005",
		`{"card":«5555555555554444»}`:           "CREDIT_CARD=5555555555554444",
		// IP_ADDRESS
		"from «192.0.2.17»:8080":          "IP_ADDRESS=192.0.2.17",
		"«192.0.2.0»/24":                  "IP_ADDRESS=192.0.2.0",
		"http://[«2001:DB8:0:0::17»]:80/": "IP_ADDRESS=2001:db8::17",
		"«::ffff:192.0.2.17»":             "IP_ADDRESS=192.0.2.17",
		"«fe80::1%eth0» up":               "IP_ADDRESS=fe80::1",
		// IBAN
		"to «DE89 3704 0044 0532 0130 00».": "IBAN=DE89370400440532013000",
		"to «gb29nwbk60161331926819»":       "IBAN=GB29NWBK60161331926819",
		// MAC
		"if «00-00-5E-00-53-AF»": "MAC=00005e0053af",
		"if «0000.5e00.53af»":    "MAC=00005e0053af",
		// CRYPTO
		"pay «0x52908400098527886E0F7030069857D2E4169EE7»": "CRYPTO=0x52908400098527886E0F7030069857D2E4169EE7",
		// SECRET
		"https://«ann:s3cret»@example.com/":            "SECRET=ann:s3cret",
		"https://«ann@example.com:s3cret»@example.com": "SECRET=ann@example.com:s3cret",
	} {
		text := strings.NewReplacer("«", "", "»", "").Replace(want)
		got, values := marked(d, text)
		if diff := cmp.Diff([]string{want, value}, append([]string{got}, values...)); diff != "" {
			t.Errorf("%s", diff)
		}
	}
}

func TestNothingToFind(t *testing.T) {
	t.Parallel()
	d := std(t)
	for _, text := range []string{
		"", "@", "a@b", "icon@2x.png", "@scope/pkg@2.1.1", "git@example.com:org/repo.git", "std::vector<int>", "10:20:30", "version 10.2.3.4", "1.2.3.4.5", "999.1.1.1",
		"Chrome/108.0.21.193", "2026-11-20T10:11:12.345Z", "1990-1995", "20261120", "1700000000000", "$1,234,567.89", "lat 48.8583701, lon 2.2944813",
		"550e8400-e29b-41d4-a716-446655440000", "order 4111111111111112", "4111 1111 1111 1112", "000-12-3456", "666-12-3456", "912-12-3456",
		"DE88 3704 0044 0532 0130 00", "pid 202555014", "bytes=2025550143", "ISBN 978-3-16-148410-0", "d41d8cd98f00b204e9800998ecf8427e",
		`{"id":2025550143,"count":4111111111111112}`, "[EMAIL_1] [PHONE_12]", "hash 0x52908400098527886E0F7030069857D2E4169Ee7", "internationalization",
	} {
		if got, values := marked(d, text); len(values) > 0 {
			t.Errorf("%q: %s %v", text, got, values)
		}
	}
}

// TestSpellings checks that all spellings of a value have one canonical form.
func TestSpellings(t *testing.T) {
	t.Parallel()
	d := std(t)
	for _, spellings := range [][]string{
		{"ann@example.com", "ANN@Example.COM", "ann＠example．com", "ann%40example.com"},
		{"(202) 555-0143", "+1 202 555 0143", "202.555.0143", "1-202-555-0143", "001 202 555 0143"},
		{"+44 20 7946 0958", "+44 (0)20 7946 0958", "+44 020 7946 0958", "0044 20 7946 0958", "+442079460958"},
		{"4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "４１１１ １１１１ １１１１ １１１１"},
		{"DE89370400440532013000", "DE89 3704 0044 0532 0130 00"},
		{"2001:db8::17", "2001:0DB8:0:0:0:0:0:17"},
		{"00:00:5e:00:53:af", "00-00-5E-00-53-AF", "0000.5e00.53af"},
	} {
		for _, spelling := range spellings {
			_, got := marked(d, spelling)
			_, want := marked(d, spellings[0])
			if len(want) != 1 || !cmp.Equal(got, want) {
				t.Errorf("%q: %v, %q: %v", spelling, got, spellings[0], want)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options detect.Options
		want    string
	}{
		{detect.Options{Types: []string{"SHOE_SIZE"}}, `unknown type "SHOE_SIZE"`},
		{detect.Options{Custom: map[string]string{"a": "x"}}, "the name consists of"},
		{detect.Options{Custom: map[string]string{"": "x"}}, "the name consists of"},
		{detect.Options{Custom: map[string]string{"EMAIL": "x"}}, "built-in"},
		{detect.Options{Custom: map[string]string{"A": "("}}, "missing closing )"},
		{detect.Options{Custom: map[string]string{"A": "x*"}}, "empty text"},
		{detect.Options{Custom: map[string]string{"A": `\b`}}, "empty text"},
	} {
		if _, err := detect.New(c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.options, err, c.want)
		}
	}
	d, err := detect.New(detect.Options{Types: []string{"ZIP_CODE"}, Custom: map[string]string{"EMPLOYEE": `EMP-\d{4}`}})
	if err != nil {
		t.Fatal(err)
	}
	if _, got := marked(d, "EMP-1234 lives in Austin, TX 78701"); !cmp.Equal(got, []string{"EMPLOYEE=EMP-1234", "ZIP_CODE=78701"}) {
		t.Errorf("found %v", got)
	}
	if _, got := marked(std(t), "Austin, TX 78701"); len(got) > 0 {
		t.Errorf("found %v, which nobody asked for", got)
	}
}

// TestJSONIsReadAsJSON checks values in the keys, strings, numbers and nested texts of JSON.
func TestJSONIsReadAsJSON(t *testing.T) {
	t.Parallel()
	d := std(t)
	inner, err := json.Marshal(map[string]any{"phone": 2025550143, "order": map[string]any{"id": 2025550199}})
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(string(inner))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"phone":2025550143,"id":2025550143}`:    `{"phone":«2025550143»,"id":2025550143}`,
		`{"phones":[{"n":"555 0143"}]}`:           `{"phones":[{"n":"«555 0143»"}]}`,
		`{"password":"correct horse battery 9!"}`: `{"password":"«correct horse battery 9!»"}`,
		`{"password":{"type":"string"}}`:          `{"password":{"type":"string"}}`,
		`{"card":{"number":"4111111111111111"}}`:  `{"card":{"number":"«4111111111111111»"}}`,
		`{"orderId":"4111111111111111"}`:          `{"orderId":"«4111111111111111»"}`,
		`[` + string(quoted) + `]`:                `[` + strings.Replace(string(quoted), "2025550143", "«2025550143»", 1) + `]`,
		`[1, "ann@example.com" is no JSON`:        `[1, "«ann@example.com»" is no JSON`,
	} {
		if got, _ := marked(d, text); got != want {
			t.Errorf("%s\nmarked %s\nwant   %s", text, got, want)
		}
	}
}

func TestDetectorIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	d := all(t)
	text := strings.Join(values, "\n")
	want := d.Find(text)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if diff := cmp.Diff(want, d.Find(text)); diff != "" {
				t.Error(diff)
			}
		})
	}
	group.Wait()
}

// Distinctive words of a dictionary are found everywhere, even within other words.
func TestDictionaryInside(t *testing.T) {
	t.Parallel()
	d, err := detect.New(detect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dictionary := detect.NewDictionary([]detect.Word{
		{Text: "219-09-9999", Type: "US_SSN", Ref: 1},
		{Text: "grace@example.com", Type: "EMAIL", Ref: 2},
		{Text: "+1 202 555 0143", Type: "PHONE", Ref: 3},
		{Text: "Ada Byron", Type: "NAME", Ref: 4},
		{Text: "Ann", Type: "NAME", Ref: 5},
		{Text: "Margaret", Type: "NAME", Ref: 6},
		{Text: "Конституция", Type: "NAME", Ref: 7},
	})
	for value, ref := range map[string]int{"219-09-9999": 1, "grace@example.com": 2, "+1 202 555 0143": 3, "Ada Byron": 4, "Конституция": 7} {
		for _, around := range []string{"x", "9", "_", "é", "語", "-", "xyz", "a1"} {
			for _, text := range []string{around + value + around, around + value, value + around, `{"s":"` + around + value + around + `"}`, value + value, "%41" + value + around} {
				found := 0
				for _, s := range d.FindWith(text, detect.Known{Sent: dictionary}) {
					if s.Ref == ref || slices.Contains(s.Within, any(ref)) {
						found++
						text = text[:s.Start] + strings.Repeat("#", s.End-s.Start) + text[s.End:]
					}
				}
				if found == 0 || strings.Contains(text, value) {
					t.Errorf("of %s beside %s there is %s, %d found", value, around, text, found)
				}
			}
		}
	}
	for _, text := range []string{"Annual", "Joann", "Margaretville"} {
		if found := d.FindWith(text, detect.Known{Sent: dictionary}); len(found) > 0 {
			t.Errorf("%s has %v", text, found)
		}
	}
}

// Words of a dictionary are found in any case, with escapes, in base64, as numbers and in JSON. Words that are not distinctive are not found within
// other words.
func TestDictionary(t *testing.T) {
	t.Parallel()
	d, err := detect.New(detect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dictionary := detect.NewDictionary([]detect.Word{
		{Text: "Ann", Type: "NAME", Ref: 1},
		{Text: "Ann Lee", Type: "NAME", Ref: 2},
		{Text: "Žofie Ünal", Type: "NAME", Ref: 3},
		{Text: "48213", Type: "CODE", Ref: 4},
		{Text: "x9", Type: "CODE", Ref: 5},
		{Text: "$tr0ng=pass", Type: "SECRET", Ref: 6},
	})
	for text, want := range map[string]string{
		"Ann called": "1:Ann", "ANN LEE called ann lees": "2:ANN LEE 1:ann", "Joann and Annie": "", "(Žofie Ünal)": "3:Žofie Ünal",
		"ann%20lee": "2:ann%20lee", `{"n":"\u0041nn Lee","code":48213}`: `2:\u0041nn Lee 4:48213`, "x9": "", "in $tr0ng=pass!": "6:$tr0ng=pass",
		`{"s":"{\"n\":\"Ann\",\"c\":48213}"}`: "1:Ann 4:48213", "QW5uIExlZSBjYWxsZWQgdXM=": "<nil>:QW5uIExlZSBjYWxsZWQgdXM=", "481482135 48213": "4:48213",
	} {
		var got []string
		for _, s := range d.FindWith(text, detect.Known{Sent: dictionary}) {
			got = append(got, fmt.Sprintf("%v:%s", s.Ref, text[s.Start:s.End]))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s has %s, want %s", text, s, want)
		}
	}
}
