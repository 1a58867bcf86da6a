package mcpclient

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnwrap(t *testing.T) {
	t.Parallel()
	const wrapping = "wrapped"
	large := strings.Repeat("x", 200)
	png := File{Name: "image-1.png", MIMEType: "image/png", Content: "hi", At: AtRoot}
	at := func(f File, i int) File { f.At = i; return f }
	for name, tc := range map[string]struct {
		result, schema string
		value          string
		files          []File
		toolErr        string
	}{
		"structured":              {`{"structuredContent":{"b":1.0,"a":12345678901234567890},"content":[{"type":"text","text":"x"}]}`, "", `{"b":1.0,"a":12345678901234567890}`, nil, ""},
		"structured array":        {`{"structuredContent":[1]}`, wrapping, `[1]`, nil, ""},
		"wrapped":                 {`{"structuredContent":{"result":[1,2]}}`, wrapping, `[1,2]`, nil, ""},
		"wrapped null":            {`{"structuredContent":{"result":null}}`, wrapping, `null`, nil, ""},
		"wrapped, no schema":      {`{"structuredContent":{"result":1}}`, "", `{"result":1}`, nil, ""},
		"not what schema says":    {`{"structuredContent":{"result":1,"x":2}}`, wrapping, `{"result":1,"x":2}`, nil, ""},
		"structured null":         {`{"structuredContent":null,"content":[{"type":"text","text":"x"}]}`, "", `"x"`, nil, ""},
		"text":                    {`{"content":[{"type":"text","text":"a \"b\" <c>"}]}`, "", `"a \"b\" <c>"`, nil, ""},
		"text that is a number":   {`{"content":[{"type":"text","text":"42"}]}`, "", `"42"`, nil, ""},
		"text that is an object":  {`{"content":[{"type":"text","text":" {\"z\":1,\"a\":2}\n"}]}`, "", `{"z":1,"a":2}`, nil, ""},
		"text that is an array":   {`{"content":[{"type":"text","text":"[1]"}]}`, "", `[1]`, nil, ""},
		"text that is nearly one": {`{"content":[{"type":"text","text":"[1] and more"}]}`, "", `"[1] and more"`, nil, ""},
		"several texts":           {`{"content":[{"type":"text","text":"{}"},{"type":"text","text":"b"}]}`, "", `["{}","b"]`, nil, ""},
		"nothing":                 {`{"content":[]}`, "", `null`, nil, ""},
		"an image":                {`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`, "", `null`, []File{png}, ""},
		"text and an image":       {`{"content":[{"type":"text","text":"x"},{"type":"image","data":"aGk","mimeType":"image/png"}]}`, "", `["x",null]`, []File{at(png, 1)}, ""},
		"audio":                   {`{"content":[{"type":"audio","data":"aGk=","mimeType":"audio/mpeg"}]}`, "", `null`, []File{{"audio-1.mp3", "audio/mpeg", "hi", AtRoot, false}}, ""},
		"resource with text": {
			`{"content":[{"type":"resource","resource":{"uri":"file:///docs/read%20me.md","mimeType":"text/plain","text":"t"}}]}`,
			"", `null`,
			[]File{{"resource-1.txt", "text/plain", "t", AtRoot, false}},
			"",
		},
		"resource with a blob": {
			`{"content":[{"type":"resource","resource":{"uri":"x://y/a.gz","blob":"-_8="}}]}`,
			"", `null`,
			[]File{{"a.gz", "", "\xfb\xff", AtRoot, false}},
			"",
		},
		"name that climbs": {
			`{"content":[{"type":"resource","resource":{"uri":"file:///a/..%2f..%2fetc","blob":"aGk="}}]}`,
			"", `null`,
			[]File{{"etc", "", "hi", AtRoot, false}},
			"",
		},
		"name of a device": {
			`{"content":[{"type":"resource","resource":{"uri":"file:///a/Nul.txt","blob":"aGk="}}]}`,
			"", `null`,
			[]File{{"resource-1", "", "hi", AtRoot, false}},
			"",
		},
		"no name at all": {
			`{"content":[{"type":"resource","resource":{"uri":"file:///a/..","blob":"aGk="}}]}`,
			"", `null`,
			[]File{{"resource-1", "", "hi", AtRoot, false}},
			"",
		},
		"link":          {`{"content":[{"type":"resource_link","uri":"x://y","name":"n"}]}`, "", `{"type":"resource_link","uri":"x://y","name":"n"}`, nil, ""},
		"error":         {`{"isError":true,"content":[{"type":"text","text":"no"},{"type":"text","text":"really"}]}`, "", ``, nil, "no\nreally"},
		"silent error":  {`{"isError":true,"content":[]}`, "", ``, nil, "the tool failed without saying why"},
		"object error":  {`{"isError":true,"content":[],"structuredContent":{"code":7}}`, "", ``, nil, `{"code":7}`},
		"a large text":  {`{"content":[{"type":"text","text":"` + large + `"}]}`, "", `null`, []File{{"result.txt", "text/plain", large, AtRoot, true}}, ""},
		"a large array": {`{"content":[{"type":"text","text":"[\"` + large + `\"]"}]}`, "", `null`, []File{{"result.json", "application/json", `["` + large + `"]`, AtRoot, true}}, ""},
		"old servers":   {`{"toolResult":{"a":1}}`, "", `{"a":1}`, nil, ""},
		"unknown block": {`{"content":[{"type":"video","x":1}]}`, "", `{"type":"video","x":1}`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := decodeResult(json.RawMessage(tc.result))
			if err != nil {
				t.Fatal(err)
			}
			value, files, toolErr := Unwrap(res, tc.schema == wrapping, 100)
			if string(value) != tc.value || toolErr != tc.toolErr {
				t.Errorf("got %s, %q, want %s, %q", value, toolErr, tc.value, tc.toolErr)
			}
			if diff := cmp.Diff(tc.files, files); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlaceFiles(t *testing.T) {
	t.Parallel()
	handles := []json.RawMessage{json.RawMessage(`{"file":"a"}`), json.RawMessage(`{"file":"b"}`)}
	got, err := PlaceFiles(json.RawMessage(`["x",null,null]`), []File{{At: 1}, {At: 2}}, handles)
	if err != nil || string(got) != `["x",{"file":"a"},{"file":"b"}]` {
		t.Errorf("%s, %v", got, err)
	}
	got, err = PlaceFiles(json.RawMessage(`null`), []File{{At: AtRoot}}, handles[:1])
	if err != nil || string(got) != `{"file":"a"}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err = PlaceFiles(json.RawMessage(`["x"]`), []File{{At: 1}}, handles[:1]); err == nil {
		t.Error("a file outside of the value was placed")
	}
	if _, err = PlaceFiles(json.RawMessage(`null`), []File{{At: AtRoot}}, nil); err == nil {
		t.Error("a file without a handle was placed")
	}
}
