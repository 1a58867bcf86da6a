package guest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// intlLocales are the locales for which Intl has data, and the languages that stand for one of these locales.
const intlLocales = `en en-US en-GB en-CA en-AU en-IN en-NZ en-ZA en-IE de de-DE de-AT de-CH fr fr-FR fr-CA fr-CH es es-ES es-MX it it-IT pt pt-BR
	pt-PT nl nl-NL nl-BE sv sv-SE da da-DK nb nb-NO fi fi-FI pl pl-PL ru ru-RU uk uk-UA cs cs-CZ sk sk-SK tr tr-TR zh zh-CN zh-TW zh-Hant ja ja-JP
	ko ko-KR id id-ID hu hu-HU ro ro-RO el el-GR hr hr-HR`

// TestIntlIsNodesOrAnError compares generated calls with Node's own Intl, whose ICU has the version of CLDR that the data comes from. Each result is the same
// or, with a few exceptions, an error.
func TestIntlIsNodesOrAnError(t *testing.T) {
	helpers, err := os.ReadFile(filepath.Join("testdata", "intl.js"))
	if err != nil {
		t.Fatal(err)
	}
	locales, err := json.Marshal(strings.Fields(intlLocales))
	if err != nil {
		t.Fatal(err)
	}
	call := fmt.Sprintf("calls(%s, 3)", locales)
	var native struct {
		CLDR  string
		Calls [][]any
	}
	inNode(t, string(helpers)+"console.log(JSON.stringify({CLDR: process.versions.cldr, Calls: "+call+"}))", &native)
	if native.CLDR != "48.0" {
		t.Skipf("Node.js has CLDR %s; the data is from 48.0", native.CLDR)
	}
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		var got [][]any
		webValue(t, open(t), string(helpers)+"return "+call, &got)
		if len(got) != len(native.Calls) {
			t.Fatalf("%d calls, Node made %d", len(got), len(native.Calls))
		}
		refused, different := 0, 0
		for i, c := range got {
			want := native.Calls[i]
			if cmp.Equal(want, c) {
				continue
			}
			if failed, ok := c[4].(map[string]any); ok {
				if failed["throws"] != "RangeError" || !strings.Contains(failed["message"].(string), "Intl here") {
					t.Errorf("%v: %v", c[:4], failed)
				}
				refused++
				continue
			}
			different++
			t.Logf("%v: %q, Node gives %q", c[:4], c[4], want[4])
		}
		t.Logf("of %d calls %d are refused and %d different", len(got), refused, different)
		if refused > len(got)/50 || different > len(got)/500 {
			t.Error("too many")
		}
	})
}

// TestIntlRefuses checks that each feature that Intl lacks causes an error that names it.
func TestIntlRefuses(t *testing.T) {
	const code = `
const attempts = {
  thai: () => new Intl.NumberFormat('th'),
  region: () => (5).toLocaleString('de-LU'),
  digits: () => (5).toLocaleString('de-DE-u-nu-arab'),
  roman: () => (5).toLocaleString('de-DE', { numberingSystem: 'roman' }),
  calendar: () => new Date(0).toLocaleDateString('en-US', { calendar: 'hebrew' }),
  letters: () => ['\u3042', '\u3044'].sort(new Intl.Collator('ja').compare),
  era: () => new Date(0).toLocaleDateString('en', { era: 'short', weekday: 'long', year: 'numeric' }),
  range: () => new Intl.NumberFormat('en').formatRange(1, 2),
  names: () => (5).toLocaleString('de', { style: 'currency', currency: 'KES', currencyDisplay: 'name' }),
};
return {
  errors: Object.entries(attempts).map(([name, f]) => { try { return [name, f()]; } catch (e) { return [name, e.name, e.message.slice(0, 60)]; } }),
  supported: Intl.NumberFormat.supportedLocalesOf(['th', 'de', 'de-LU', 'fr-CA', 'en-GB-u-hc-h12', 'zh-Hant-TW', 'ar']),
  second: new Intl.NumberFormat(['th', 'de-AT']).resolvedOptions().locale,
  numeric: ['b10', 'b9'].sort(new Intl.Collator('en-u-kn').compare),
};`
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		var got struct {
			Errors    [][]string
			Supported []string
			Second    string
			Numeric   []string
		}
		webValue(t, open(t), code, &got)
		for _, e := range got.Errors {
			if len(e) != 3 || e[1] != "RangeError" || !strings.Contains(e[2], "Intl") {
				t.Errorf("%q", e)
			}
		}
		if diff := cmp.Diff([]string{"de", "fr-CA", "en-GB-u-hc-h12", "zh-Hant-TW"}, got.Supported); diff != "" {
			t.Errorf("supported (-want +got)\n%s", diff)
		}
		if got.Second != "de-AT" || cmp.Diff([]string{"b9", "b10"}, got.Numeric) != "" {
			t.Errorf("%+v", got)
		}
	})
}
