package program

import (
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/startup"
)

// Messages of the engines, after subject has added the expression that caused the error.
var (
	notFunction = startup.Regexp(`^(.*?)([\w$]+) is not a function`)
	isNothing   = startup.Regexp(`[pP]ropert.*: (.*?)([\w$]+) is (?:undefined|null)$`)
	notIterable = startup.Regexp(`^(.*?)([\w$]+) is not iterable: it is (?:undefined|null)$`)
)

// contextual returns advice that follows from the expression that an error is about, and from what the program does with it. It returns "" if
// the table of hints has to give the advice.
func contextual(e frame.Error, message, code string) string {
	if e.Kind != frame.KindRuntime || e.Name != "TypeError" || len(code) > maxHinted {
		return ""
	}
	message = strings.TrimPrefix(clip.Head(message, maxMessage), "TypeError: ")
	if m := notFunction().FindStringSubmatch(message); m != nil {
		return adviseCall(strings.TrimSuffix(strings.TrimSuffix(m[1], "."), "?"), m[2], code)
	}
	m := isNothing().FindStringSubmatch(message)
	if m == nil {
		m = notIterable().FindStringSubmatch(message)
	}
	if m == nil {
		return ""
	}
	base, member := strings.TrimSuffix(strings.TrimSuffix(m[1], "."), "?"), m[2]
	switch {
	case unawaited(code, rootOf(base, member)):
		return rootOf(base, member) + " is a promise: write await before the call that it comes from"
	case slices.Contains(envelope, member) && (mentionsTools(code) || strings.Contains(code, "JSON.parse")):
		if base == "" || base == m[1] {
			base = "the result"
		}
		return "tools return their results unwrapped: use " + base + " itself, without content[0].text, structuredContent and JSON.parse"
	case base == "" || base == m[1]: // a variable, or an item that is read by its index
		return ""
	}
	if closest := similar(member, methods, namesIn(code, member)); closest != "" {
		return "did you mean " + closest + "?"
	}
	return base + " has no " + member + ": print it with console.log(" + base + "), or write ?. where it may be absent"
}

// adviseCall returns advice about a member that is not a function, or about a variable if base is empty.
func adviseCall(base, member, code string) string {
	switch {
	case unawaited(code, rootOf(base, member)):
		return rootOf(base, member) + " is a promise: write await before the call that it comes from"
	case base == "":
		return "" // the table of hints has advice for some names
	case base == "input" && member == "toArray":
		return "the input was read as one value: --input-format csv, ndjson or lines (input.format over HTTP) makes rows of it"
	case newer[base+"."+member] != "":
		return base + "." + member + " is newer than this engine: write " + newer[base+"."+member]
	case newer["."+member] != "" && !isOwnMethod(code, member):
		return member + " is newer than this engine: write " + newer["."+member]
	case members[base] != "":
		known := strings.Fields(members[base])
		if closest := similar(member, known, nil); closest != "" {
			return "did you mean " + base + "." + closest + "?"
		}
		return base + " has " + strings.Join(known, ", ")
	case slices.Contains(textMethods, member) && readsBytes().MatchString(code):
		return "without an encoding readFileSync and fs.promises.readFile give a Buffer, as in Node: write readFile(path, 'utf8')"
	case slices.Contains(listMethods, member) && ofIterator().MatchString(base):
		return "this engine's iterators have no " + member + ": make a list first, [..." + strings.Replace(base, "(...)", "(…)", 1) + "]." + member
	case slices.Contains(listMethods, member):
		return base + " is no array: print it with console.log(" + base + "); a result may hold its list in a property, and a call needs await"
	}
	if closest := similar(member, methods, nil); closest != "" {
		return "did you mean " + closest + "?"
	}
	return base + " has no function " + member + ": print it with console.log(" + base + ")"
}

// envelope lists the members that an MCP answer has in the protocol or in other products. Programs here do not see them.
var envelope = strings.Fields("content structuredContent text result isError")

// newer maps each name of a language feature that one of the engines lacks to its replacement. A method's name begins with a dot.
var newer = map[string]string{
	"Object.groupBy":        "(groups[key(x)] ??= []).push(x) in a loop",
	"Map.groupBy":           "a loop with has, get and set",
	"Promise.withResolvers": "new Promise((resolve, reject) => …)",
	"Promise.try":           "(async () => f())()",
	"Array.fromAsync":       "a loop of for await (const x of …)",
	"RegExp.escape":         `text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')`,
	"Error.isError":         "x instanceof Error",
	"Math.sumPrecise":       "list.reduce((a, b) => a + b, 0)",
	"Math.f16round":         "Math.fround(x)",
	"Uint8Array.fromBase64": "Buffer.from(text, 'base64')",
	"Uint8Array.fromHex":    "Buffer.from(text, 'hex')",
	".toBase64":             "Buffer.from(bytes).toString('base64')",
	".toHex":                "Buffer.from(bytes).toString('hex')",
	".union":                "new Set([...a, ...b])",
	".intersection":         "new Set([...a].filter((x) => b.has(x)))",
	".difference":           "new Set([...a].filter((x) => !b.has(x)))",
	".symmetricDifference":  "new Set([...a, ...b].filter((x) => a.has(x) !== b.has(x)))",
	".isSubsetOf":           "[...a].every((x) => b.has(x))",
	".isSupersetOf":         "[...b].every((x) => a.has(x))",
	".isDisjointFrom":       "![...a].some((x) => b.has(x))",
	".getOrInsert":          "has, get and set",
	"Iterator":              "[...iterator] and methods of arrays",
	"Float16Array":          "Float32Array",
	"DisposableStack":       "try and finally",
	"AsyncDisposableStack":  "try and finally",
	"SuppressedError":       "AggregateError",
}

// textMethods are methods that strings have and buffers lack.
var textMethods = strings.Fields("split trim match matchAll replace replaceAll startsWith endsWith toLowerCase toUpperCase substring charAt padStart")

// readsBytes matches a read of a file without an encoding, in one of Node's forms.
var readsBytes = startup.Regexp(`readFileSync\([^,()]*\)|(?s)(promises|fs/promises)\b.*\breadFile\([^,()]*\)`)

// ofIterator matches a call that returns an iterator; one of the engines lacks the methods of iterators.
var ofIterator = startup.Regexp(`\.(values|keys|entries|matchAll|\[Symbol\.iterator\])\((\.\.\.)?\)$`)

// rootOf returns the variable that an expression begins with, or "" if it begins with something else.
func rootOf(base, member string) string {
	if base == "" {
		base = member
	}
	if end := wordEnd(base, 0); end > 0 && (end == len(base) || base[end] == '.' || base[end] == '[' || base[end] == '?') {
		return base[:end]
	}
	return ""
}

// unawaited reports whether a variable is declared with the promise of a host call, without await.
func unawaited(code, name string) bool {
	if name == "" || isReservedCall(name) {
		return false
	}
	s := tokenize(code)
	found := false
	for i := range s.tokens {
		if !s.is(i, name) || !(s.is(i-1, "const") || s.is(i-1, "let") || s.is(i-1, "var")) {
			continue
		}
		if found || !s.is(i+1, "=") {
			return false // two variables have this name
		}
		next := i + 2
		switch {
		case s.is(next, "callMCPTool"), s.is(next, "search_mcp_tools"), s.is(next, "list_mcp_tools"), s.is(next, "get_mcp_tool_details"):
			found = s.is(next+1, "(")
		case s.is(next, "tools"):
			found = s.is(next+1, ".") && s.is(next+3, ".") && s.is(next+5, "(")
		case s.is(next, "fs"):
			found = s.is(next+1, ".") && s.is(next+3, "(") && !strings.HasSuffix(s.text(next+2), "Sync")
		case s.is(next, "Promise"):
			found = s.is(next+1, ".") && s.is(next+3, "(")
		default:
			return false
		}
		if found && s.endsThen(next) {
			return false
		}
	}
	return found
}

// isReservedCall reports whether a name belongs to the runtime. Such a name never holds a promise.
func isReservedCall(name string) bool { return slices.Contains(guestNames, name) }

// endsThen reports whether the program reads a member other than then, catch or finally of the result of the call at token i.
func (s *scan) endsThen(i int) bool {
	for !s.is(i, "(") {
		i++
	}
	end := s.tokens[i].match
	return end <= i || s.is(end+1, ".") && !s.is(end+2, "then") && !s.is(end+2, "catch") && !s.is(end+2, "finally") || s.is(end+1, "[")
}

// isOwnMethod reports whether a program defines a member with this name.
func isOwnMethod(code, member string) bool {
	s := tokenize(code)
	for i := range s.tokens {
		if s.is(i, member) && (s.isKey(i) || s.isMember(i) && s.is(i+1, "=")) {
			return true
		}
	}
	return false
}

// similar returns the candidate that is most like name, or "" if none is similar. more holds further candidates, the names of the program.
func similar(name string, candidates []string, more map[string]bool) string {
	all := slices.Concat(candidates, slices.Sorted(maps.Keys(more)))
	if len(name) < 3 || slices.Contains(candidates, name) {
		return ""
	}
	name = strings.TrimSuffix(name, "Async")
	for _, c := range ident.Closest(name, all) {
		if ident.Distance([]rune(strings.ToLower(c)), []rune(strings.ToLower(name))) <= 2 {
			return clip.Head(c, maxName)
		}
	}
	return ""
}

// namesIn returns the names in a program that differ from besides.
func namesIn(code, besides string) map[string]bool {
	s := tokenize(code)
	count := map[string]int{}
	for i := range s.tokens {
		if text := s.text(i); s.isName(i) && text != besides && len(text) > 2 && (len(count) < maxKnown || count[text] > 0) {
			count[text]++
		}
	}
	names := map[string]bool{}
	for name := range count {
		names[name] = true
	}
	return names
}

// listMethods are the methods of arrays that programs often call on other values.
var listMethods = strings.Fields("map filter reduce forEach find findIndex some every flatMap flat slice sort join push includes indexOf concat reverse splice at")

// methods are properties of built-in values that may be misspelt.
var methods = slices.Concat(listMethods, strings.Fields("length size name message concat copyWithin entries fill findLast findLastIndex keys lastIndexOf pop "+
	"reduceRight shift unshift toReversed toSorted toSpliced values with charAt charCodeAt codePointAt endsWith localeCompare match matchAll normalize padEnd padStart "+
	"repeat replace replaceAll search split startsWith substring toLowerCase toUpperCase toLocaleString trim trimEnd trimStart toFixed toPrecision toString valueOf "+
	"getTime getFullYear getMonth getDate getDay getHours getMinutes getSeconds toISOString toLocaleDateString toLocaleTimeString getTimezoneOffset "+
	"setFullYear setMonth setDate setHours getUTCFullYear getUTCMonth getUTCDate has get set add delete clear then catch finally exec test hasOwnProperty"))

// members maps globals to the names of their functions.
var members = map[string]string{
	"fs":      "readFile writeFile appendFile listFiles readdir exists deleteFile mkdir rename copyFile stat rm unlink access",
	"utils":   "sleep parseJSON timestamp requireServer",
	"JSON":    "parse stringify",
	"Object":  "keys values entries assign fromEntries freeze isFrozen seal create groupBy hasOwn is defineProperty getPrototypeOf getOwnPropertyNames",
	"Array":   "from isArray of",
	"Promise": "all allSettled any race resolve reject withResolvers",
	"Number":  "isInteger isFinite isNaN isSafeInteger parseFloat parseInt",
	"Date":    "now parse UTC",
	"Math":    "abs ceil floor round max min pow sqrt random trunc sign log log2 log10 exp sin cos tan atan atan2 cbrt hypot",
	"console": "log error warn info debug table group groupEnd time timeEnd count dir assert trace",
}

// guestNames are the predefined names of programs that may be misspelt.
var guestNames = strings.Fields("callMCPTool search_mcp_tools list_mcp_tools get_mcp_tool_details introspect_servers tools fs utils pii env input " +
	"console require Buffer URL URLSearchParams TextEncoder TextDecoder AbortController AbortSignal structuredClone setTimeout clearTimeout " +
	"setInterval clearInterval queueMicrotask Object Array String Number Boolean Promise Math JSON Date Intl RegExp Symbol BigInt Error TypeError " +
	"RangeError Map Set WeakMap WeakSet Proxy Reflect Uint8Array ArrayBuffer undefined isNaN isFinite parseInt parseFloat " +
	"fetch Headers Request Response encodeURIComponent decodeURIComponent encodeURI decodeURI crypto performance atob btoa globalThis")

// misspelt returns advice for a name that nothing defines. It suggests similar names of the program or the sandbox.
func misspelt(name, source string) string {
	known := map[string]bool{}
	for _, text := range guestNames {
		known[text] = true
	}
	if instead := newer[name]; instead != "" {
		return name + " is newer than this engine: write " + instead
	}
	s := tokenize(source)
	called, method := false, ""
	for i := range s.tokens {
		text := s.text(i)
		if !s.isName(i) || s.isMember(i) {
			continue
		}
		called = called || text == name && s.is(i+1, "(")
		if text == name && s.is(i+1, ".") && s.is(i+3, "(") && !slices.Contains(listMethods, s.text(i+2)) {
			method = s.text(i + 2)
		}
		if text != name && len(text) > 2 && len(known) < maxKnown {
			known[text] = true
		}
	}
	closest := ident.Closest(name, slices.Collect(maps.Keys(known)))
	if len(name) < 4 { // short names resemble too many others
		closest = slices.DeleteFunc(closest, func(c string) bool { return !sameLetters(c, name) })
	}
	if len(closest) > 0 {
		return "did you mean " + clip.Head(strings.Join(closest, " or "), maxName) + "?"
	}
	switch server, tool, qualified := strings.Cut(name, "__"); {
	case called && qualified && server != "" && tool != "":
		return "tools are called with await callMCPTool('" + name + "', {…}); await search_mcp_tools('what you need') finds their names"
	case called:
		return "no function has this name: functions of earlier runs do not survive; tools are called with await callMCPTool('server__tool', {…}), and " +
			"await search_mcp_tools('" + strings.ToLower(strings.Join(ident.Words(name), " ")) + "') finds their names"
	case method != "":
		return name + " is no variable of this program, and no server: " + toolsHint + ". If an earlier run set it: variables do not survive; save values in /workspace"
	}
	return "if " + name + " was set by an earlier run: variables do not survive; save values with await " +
		"fs.writeFile('/workspace/" + name + ".json', JSON.stringify(" + name + ")) and read them back"
}

// sameLetters reports whether two names consist of the same letters, in any order and case.
func sameLetters(a, b string) bool {
	letters := func(s string) []rune { return slices.Sorted(slices.Values([]rune(strings.ToLower(s)))) }
	return slices.Equal(letters(a), letters(b))
}

// CallOf finds the first place where a program uses name as a variable, and returns what follows there: the names of the members, and the string
// literals among the arguments of the call, at most maxWritten in all. called reports whether the program calls the variable or a member of it.
func CallOf(code, name string) (written []string, called bool) {
	s := tokenize(clip.Head(code, maxHinted))
	for i := range s.tokens {
		if !s.is(i, name) || !s.isName(i) || s.isMember(i) {
			continue
		}
		i++
		for ; len(written) < maxWritten; i++ {
			switch {
			case (s.is(i, ".") || s.is(i, "?.")) && s.isName(i+1):
				written = append(written, s.text(i+1))
				i++
			case s.is(i, "[") && s.isKind(i+1, str) && s.is(i+2, "]"):
				written = append(written, unquote(s.text(i+1)))
				i += 2
			case s.is(i, "("):
				for end := s.tokens[i].match; i < end && len(written) < maxWritten; i++ {
					if s.isKind(i, str) {
						written = append(written, unquote(s.text(i)))
					}
				}
				return written, true
			default:
				return written, called
			}
		}
		return written, called
	}
	return nil, false
}

// maxWritten is the maximum number of names and strings that CallOf returns.
const maxWritten = 12

// maxKnown is the maximum number of names of a program that are compared with a misspelt name.
const maxKnown = 500
