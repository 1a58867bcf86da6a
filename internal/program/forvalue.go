package program

import (
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// Words in names of functions. If the name of a function begins with a reading word, the function is called for its value. If the name contains an
// acting word and does not begin with a reading word, the function is called for its effect.
var (
	readingWords = strings.Fields("get list search find read fetch query count describe show lookup look check compute calculate sum is has can to parse " +
		"format select load extract summarize analyze compare validate view browse preview diff exists stat")
	actingWords = strings.Fields("create update delete remove add set write send post put insert upsert patch edit move rename copy save store upload push " +
		"publish submit cancel close open archive start stop run execute trigger apply merge assign invite grant revoke enable disable reset clear mark " +
		"append log notify schedule book pay charge refund approve reject lock unlock rm rmdir mkdir unlink access sleep delay wait queue emit dispatch " +
		"register subscribe unsubscribe on off once end abort destroy kill drop truncate restart commit deploy install print warn error debug " +
		"pop shift unshift splice fill")
	// changing are methods of arrays, maps and sets that are called for their effect.
	changing = strings.Fields("forEach push pop shift unshift splice fill copyWithin set add delete clear")
)

// maxJudged is the maximum number of tokens of an expression that is examined. A longer one counts as meant for its value.
const maxJudged = 2000

// isForValue reports whether the expression between two tokens is likely meant for its value rather than its effect.
func (s *scan) isForValue(first, last int) bool {
	if last-first > maxJudged {
		return true
	}
	for s.is(first, "await") || s.is(first, "(") && s.tokens[first].match == last {
		if s.is(first, "(") {
			last--
		}
		first++
	}
	if first > last {
		return false
	}
	switch s.text(first) {
	case "void", "delete", "yield", "function", "class", "async", "import", "null", "undefined":
		return false
	case "typeof", "!", "-", "+", "~":
		return true
	}
	depth := s.tokens[first].depth
	branch, operand, operator := -1, -1, false // index of a question mark, of the last operand of a logical operator, and whether there is another operator
	for i := first; i <= last; i++ {
		if s.tokens[i].depth != depth || s.tokens[i].kind > word {
			continue
		}
		switch text := s.text(i); text {
		case "=>", "++", "--":
			return false
		case "=":
			if !s.isComparison(i) {
				return false
			}
			operator = true
		case "as", "satisfies":
			if i > first && s.tokens[i-1].operand && !s.isMember(i) {
				return s.isForValue(first, i-1)
			}
		case ",":
			branch, operand, operator = -1, i+1, false
		case "?", "&", "|":
			twice := s.is(i+1, text) && s.tokens[i].end == s.tokens[i+1].start
			switch {
			case twice && branch < 0:
				i++
				operand, operator = i+1, false
			case twice:
				i++
			case text == "?" && branch < 0:
				branch = i
			default:
				operator = true
			}
		case "+", "-", "*", "/", "%", "<", ">", "^", "instanceof", "in":
			operator = operator || !s.isMember(i)
		}
	}
	switch {
	case branch >= 0:
		for i := branch + 1; i <= last; i++ {
			if s.is(i, ":") && s.tokens[i].depth == depth {
				return s.isForValue(branch+1, i-1) || s.isForValue(i+1, last)
			}
		}
		return true
	case operator:
		return true
	case operand >= 0:
		return s.isForValue(operand, last)
	}
	return s.isChainForValue(first, last)
}

// isComparison reports whether an equals sign is part of a comparison operator.
func (s *scan) isComparison(i int) bool {
	beside := func(i int, text string) bool { return s.is(i, text) && s.tokens[i].end == s.tokens[i+1].start }
	switch {
	case beside(i, "=") && s.is(i+1, "="), beside(i-1, "="), beside(i-1, "!"):
		return true
	case beside(i-1, "<"):
		return !beside(i-2, "<")
	case beside(i-1, ">"):
		return !beside(i-2, ">")
	}
	return false
}

// isChainForValue does what isForValue does, for a chain of members and calls without operators.
func (s *scan) isChainForValue(first, last int) bool {
	for last > first && s.is(last, "!") {
		last--
	}
	if s.is(first, "new") {
		return !s.is(first+1, "Promise")
	}
	name := last - 1 // name of the called function
	switch {
	case s.isKind(last, template) && s.code[s.tokens[last].start] == '`' && last > first:
	case s.is(last, ")"):
		if name = s.tokens[last].match - 1; s.is(name, "?.") {
			name--
		}
	default:
		return true
	}
	if name < first { // parentheses around the whole chain
		return true
	}
	if s.isSettled(name) && name-2 >= first {
		return s.isForValue(first, name-2)
	}
	if s.is(name, ")") && s.tokens[name].match == first { // an immediately invoked function
		return s.givesValue(first+1, name-1)
	}
	if s.is(name, "]") {
		name--
	}
	return !s.isForEffect(name, first)
}

// givesValue reports whether the function between two tokens returns a value, as far as its text tells.
func (s *scan) givesValue(first, last int) bool {
	for i := first; i < last; i++ {
		switch {
		case s.is(i, "return") && !s.isMember(i) && !s.is(i+1, ";") && !s.is(i+1, "}"):
			return true
		case s.is(i, "=>") && s.tokens[i].depth == s.tokens[first].depth:
			if !s.is(i+1, "{") {
				return s.isForValue(i+1, last)
			}
		}
	}
	return false
}

// isForEffect reports whether the call of a function is likely meant for its effect. name is the token of the function's name, possibly a string in
// brackets; first is the first token of its chain of members.
func (s *scan) isForEffect(name, first int) bool {
	text := strings.Trim(s.text(name), "'\"`")
	open := name + 1
	for s.is(open, "]") || s.is(open, "?.") {
		open++
	}
	member := name > first
	switch root := s.text(first); {
	case root == "console" || root == "assert" || root == "expect":
		return true
	case text == "callMCPTool" && s.isKind(open+1, str):
		_, tool, _ := strings.Cut(strings.Trim(s.text(open+1), "'\""), "__")
		return isActing(tool)
	case !member:
		return text == "require" || text == "resolve" || text == "reject" || isActing(text)
	case root == "Promise" || slices.Contains(listMethods, text) && !slices.Contains(changing, text):
		return s.is(open, "(") && s.hasEffect(open+1, s.tokens[open].match-1)
	case root == "Object" || root == "Array" || root == "Math" || root == "Number" || root == "String" || root == "Reflect":
		return false
	case slices.Contains(changing, text):
		return true
	case slices.Contains(methods, text):
		return false
	}
	return isActing(text)
}

// hasEffect reports whether the tokens contain a call that has an effect outside the program.
func (s *scan) hasEffect(first, last int) bool {
	for i := first; i < last; i++ {
		if !s.isName(i) || !s.is(i+1, "(") || s.is(i-1, "function") || slices.Contains(methods, s.text(i)) || slices.Contains(changing, s.text(i)) {
			continue
		}
		if root := s.chainStart(i); !s.is(root, "Promise") && s.isForEffect(i, root) { // the loop visits the arguments too
			return true
		}
	}
	return false
}

// isActing reports whether the name of a function suggests an effect.
func isActing(name string) bool {
	words := ident.Words(name)
	for i := range words {
		words[i] = strings.ToLower(words[i])
	}
	return len(words) > 0 && !slices.Contains(readingWords, words[0]) && slices.ContainsFunc(words, func(w string) bool { return slices.Contains(actingWords, w) })
}
