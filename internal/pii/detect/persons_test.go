package detect_test

import (
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/pii/detect"
)

// TestPersonsOfCountries checks published examples of personal numbers in their usual forms. They are found if Options name the country, and not
// found otherwise. Numbers with a wrong check digit are not found.
func TestPersonsOfCountries(t *testing.T) {
	t.Parallel()
	for country, kinds := range map[string]map[string][]string{
		"br": {"BR_CPF": {"111.444.777-35", "11144477735"}, "BR_CNPJ": {"11.222.333/0001-81", "11222333000181"}},
		"de": {"DE_TAX_ID": {"86095742719", "86 095 742 719"}},
		"es": {"ES_NIF": {"12345678Z", "12345678-Z", "X1234567L"}},
		"fr": {"FR_NIR": {"1 85 05 78 006 084 91", "185057800608491"}},
		"in": {"IN_PAN": {"ABCPE1234F"}, "IN_AADHAAR": {"2341 2341 2346"}},
		"it": {"IT_FISCAL_CODE": {"RSSMRA85T10A562S"}},
		"kr": {"KR_RRN": {"850101-1234566"}},
		"nl": {"NL_BSN": {"BSN 111222333", "1112.22.333"}},
		"pl": {"PL_PESEL": {"44051401359"}},
		"se": {"SE_PERSONAL_ID": {"811228-9874", "19811228-9874", "8112289874"}},
		"tr": {"TR_ID": {"10000000146"}},
	} {
		d, err := detect.New(detect.Options{Countries: []string{country}})
		if err != nil {
			t.Fatal(err)
		}
		for kind, texts := range kinds {
			for _, text := range texts {
				value := strings.TrimPrefix(text, "BSN ")
				for _, form := range []string{"%s", "(%s)", "番号は%sです", `{"id":"%s"}`, "the order %s."} {
					whole := strings.Replace(form, "%s", text, 1)
					got, _ := marked(d, whole)
					if spans := d.Find(whole); len(spans) != 1 || spans[0].Type != kind || whole[spans[0].Start:spans[0].End] != value {
						t.Errorf("%s of %s: %s", kind, country, got)
					}
				}
				if spans := std(t).Find(text); len(spans) > 0 && spans[0].Type == kind {
					t.Errorf("%s is a %s without its country", text, kind)
				}
				if kind == "IN_PAN" {
					continue
				}
				last := value[len(value)-1]
				wrong := text[:len(text)-1] + string("1234567890BCDEFGHIJKLMNOPQRSTUVWXYZA"[strings.IndexByte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", last)])
				if spans := d.Find(wrong); len(spans) > 0 && spans[0].Type == kind {
					t.Errorf("%s, with another check digit, is a %s", wrong, kind)
				}
			}
		}
	}
	if _, err := detect.New(detect.Options{Countries: []string{"zz"}}); err == nil || !strings.Contains(err.Error(), `unknown country "zz"; countries are br, cn`) {
		t.Errorf("the error for an unknown country is %v", err)
	}
}
