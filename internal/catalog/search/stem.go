package search

import "strings"

// stem reduces an English word in lower case to its stem, by the algorithm of M. F. Porter (1980), the one that SQLite's
// porter tokenizer uses: https://tartarus.org/martin/PorterStemmer/def.txt. The rule for a final y is that of its
// successor, so that deploy and deployments meet. Words with other letters stay.
func stem(word string) string {
	if len(word) <= 2 {
		return word
	}
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	w := step1(word)
	w = longest(w, step2, 0)
	w = longest(w, step3, 0)
	w = step4(w)
	return step5(w)
}

// rule replaces a suffix.
type rule struct{ suffix, by string }

// step2 and step3 need a measure above 0 before the suffix.
func step2(w string) (rule, bool) {
	return find(w, []rule{
		{"ational", "ate"},
		{"tional", "tion"},
		{"enci", "ence"},
		{"anci", "ance"},
		{"izer", "ize"},
		{"abli", "able"},
		{"alli", "al"},
		{"entli", "ent"},
		{"eli", "e"},
		{"ousli", "ous"},
		{"ization", "ize"},
		{"ation", "ate"},
		{"ator", "ate"},
		{"alism", "al"},
		{"iveness", "ive"},
		{"fulness", "ful"},
		{"ousness", "ous"},
		{"aliti", "al"},
		{"iviti", "ive"},
		{"biliti", "ble"},
	})
}

func step3(w string) (rule, bool) {
	return find(w, []rule{
		{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
	})
}

// find is the rule with the longest suffix that w has.
func find(w string, rules []rule) (rule, bool) {
	var best rule
	for _, r := range rules {
		if len(r.suffix) > len(best.suffix) && strings.HasSuffix(w, r.suffix) {
			best = r
		}
	}
	return best, best.suffix != ""
}

func longest(w string, step func(string) (rule, bool), above int) string {
	r, ok := step(w)
	if !ok {
		return w
	}
	if s := strings.TrimSuffix(w, r.suffix); measure(s) > above {
		return s + r.by
	}
	return w
}

func step1(w string) string {
	// 1a: plurals.
	switch {
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ies"):
		w = w[:len(w)-2]
	case strings.HasSuffix(w, "ss"):
	case strings.HasSuffix(w, "s"):
		w = w[:len(w)-1]
	}
	// 1b: -ed and -ing.
	if s, ok := strings.CutSuffix(w, "eed"); ok {
		if measure(s) > 0 {
			w = s + "ee"
		}
	} else {
		s, ok := strings.CutSuffix(w, "ed")
		if !ok {
			s, ok = strings.CutSuffix(w, "ing")
		}
		if ok && hasVowel(s) {
			w = restored(s)
		}
	}
	// 1c: y after a consonant that is not the first letter.
	if s, ok := strings.CutSuffix(w, "y"); ok && len(s) > 1 && consonant(s, len(s)-1) {
		w = s + "i"
	}
	return w
}

// restored gives back the e or takes the doubled letter that -ed and -ing left.
func restored(s string) string {
	switch {
	case strings.HasSuffix(s, "at"), strings.HasSuffix(s, "bl"), strings.HasSuffix(s, "iz"):
		return s + "e"
	case doubled(s) && !strings.ContainsAny(s[len(s)-1:], "lsz"):
		return s[:len(s)-1]
	case measure(s) == 1 && cvc(s):
		return s + "e"
	}
	return s
}

func step4(w string) string {
	r, ok := find(w, []rule{
		{"al", ""},
		{"ance", ""},
		{"ence", ""},
		{"er", ""},
		{"ic", ""},
		{"able", ""},
		{"ible", ""},
		{"ant", ""},
		{"ement", ""},
		{"ment", ""},
		{"ent", ""},
		{"ion", ""},
		{"ou", ""},
		{"ism", ""},
		{"ate", ""},
		{"iti", ""},
		{"ous", ""},
		{"ive", ""},
		{"ize", ""},
	})
	if !ok {
		return w
	}
	s := strings.TrimSuffix(w, r.suffix)
	if measure(s) <= 1 || r.suffix == "ion" && !strings.HasSuffix(s, "s") && !strings.HasSuffix(s, "t") {
		return w
	}
	return s
}

func step5(w string) string {
	if s, ok := strings.CutSuffix(w, "e"); ok {
		if m := measure(s); m > 1 || m == 1 && !cvc(s) {
			w = s
		}
	}
	if strings.HasSuffix(w, "ll") && measure(w) > 1 {
		w = w[:len(w)-1]
	}
	return w
}

// consonant reports whether the letter at i is one; y is after a vowel or at the start.
func consonant(w string, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !consonant(w, i-1)
	}
	return true
}

// measure counts the vowel-consonant sequences of w: tree 0, trouble 1, private 2.
func measure(w string) int {
	n := 0
	vowel := false
	for i := range len(w) {
		c := consonant(w, i)
		if c && vowel {
			n++
		}
		vowel = !c
	}
	return n
}

func hasVowel(w string) bool {
	for i := range len(w) {
		if !consonant(w, i) {
			return true
		}
	}
	return false
}

func doubled(w string) bool {
	n := len(w)
	return n > 1 && w[n-1] == w[n-2] && consonant(w, n-1)
}

// cvc reports whether w ends consonant, vowel, consonant and the last is not w, x or y: hop, but not snow.
func cvc(w string) bool {
	n := len(w)
	return n > 2 && consonant(w, n-1) && !consonant(w, n-2) && consonant(w, n-3) && !strings.ContainsAny(w[n-1:], "wxy")
}
