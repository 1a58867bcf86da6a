package program

import (
	"regexp"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/startup"
)

// hint is one row of the table: a kind and message of error, and the advice for it. A row applies if all patterns that
// it has match.
type hint struct {
	kind    string // kind of the frame.Error
	message string // regular expression
	source  string // regular expression for the program as written
	advice  string // advice; $1 is the first group of message
}

// hints are tried in order. The first that applies gives the advice.
var hints = []hint{
	// Programs that were escaped on their way, or that have text around them.
	{kind: frame.KindSyntax, source: `\A\s*<(!\[CDATA\[|(code|script|program|tool_call|execute\w*|javascript|typescript|js|ts)\b[^<>]*>)`, advice: "send the program alone, without tags around it"},
	{kind: frame.KindSyntax, source: `&(lt|gt|amp|quot|apos|nbsp|#\d+|#x[0-9a-fA-F]+);`, advice: htmlHint},
	undefined(`lt|gt|amp|quot|apos|nbsp`, htmlHint),
	{
		kind: frame.KindSyntax, message: `^Syntax error "[nrt\\"]+"|^Invalid identifier|^Unexpected "\\|never closed`, source: `[;{}(),\[\]>]\s*\\[nrt]|=\s*\\["'` + "`" + `]|[=<>&]?\\u00(3[ce]|26|27|22)|\A\s*\\n`,
		advice: `the program is escaped once too often: send line breaks, quotes and < > & as they are, and not as \n, \" and \u003e`,
	},
	{kind: frame.KindSyntax, message: `[“”‘’«»„]`, advice: `write quotes as " or ', and not as typographic ones`},
	{kind: frame.KindSyntax, source: proseFirst + "|" + proseLast, advice: "send the program alone, or in a code block: there is text before or behind it"},

	// Python. Most Python programs fail with a syntax error.
	{kind: frame.KindSyntax, source: `(?m)^\s*(def \w+\(.*|class \w+(\(.*\))?|elif .*|else|try|except\b.*|for \w+(, *\w+)* in .+|` +
		`(if|while) [^({].*|with .+ as \w+):\s*(#.*)?$`, advice: pythonHint},
	{kind: frame.KindSyntax, source: `(?m)^\s*(from [\w.]+ import \S|import \w+( as \w+)?\s*$|print\s+["'\w])`, advice: pythonHint},
	{kind: frame.KindSyntax, source: `(?m)^\s*(async def \w|await asyncio\.)|\b(None|True|False)\b.*\n?.*\bprint\(`, advice: pythonHint},
	undefined(`print|None|True|False|len|str|dict|range|elif|asyncio|json`, pythonHint),

	// What Node.js, browsers and other platforms have and the sandbox lacks.
	says(`^'?(XMLHttpRequest|WebSocket|axios|EventSource)'? is not (defined|a function)`, noNetwork),
	undefined(`process`, "the sandbox has no process: configured values are in env.NAME; return ends a program"),
	undefined(otherProducts, toolsHint),
	undefined(`arguments|argv`, "what the program was given is in input, and configured values are in env.NAME"),
	undefined(`child_process`, "programs cannot start processes; call a tool: await search_mcp_tools('what you need')"),
	undefined(`module|exports`,
		"a program returns its result (return value); module.exports belongs into a skill: await "+
			"fs.writeFile('/skills/name.js', text)"),
	undefined(`__dirname|__filename`, "use the absolute paths /workspace and /skills"),
	undefined(`setImmediate|clearImmediate`, "use setTimeout(f, 0)"),
	undefined(`Deno|Bun`,
		"the sandbox is neither Deno nor Bun: files are read with await fs.readFile('/workspace/…'), tools called with callMCPTool"),
	undefined(`window|document|localStorage|sessionStorage|location|alert|DOMParser|HTMLElement`,
		"there is no browser: keep values in variables, files in /workspace, and return the result"),
	undefined(`WebAssembly|SharedArrayBuffer|Atomics|Worker|MessageChannel`,
		"the sandbox runs plain JavaScript on one thread; Promise.all makes calls in parallel"),
	undefined(`navigator|BroadcastChannel|MessagePort`, noNetwork),
	undefined(`ReadableStream|WritableStream|TransformStream|CompressionStream|DecompressionStream|TextDecoderStream|TextEncoderStream|FileReader`,
		"there are no streams: read whole files with await fs.readFile('/workspace/…'), or ranges with its offset and length"),
	undefined(`global|self|root`, "the global object is globalThis"),
	undefined(`assert|buffer|events|os|path|querystring|string_decoder|url|util`, "load it: const $1 = require('$1')"),
	undefined(`EventEmitter|inspect|promisify|createHash|createHmac|randomBytes|basename|extname|dirname`, "load it: it is a member of a module, such as "+
		"require('events').EventEmitter, require('util').inspect, require('crypto').createHash, require('path').basename"),
	undefined(`qs`, "use new URLSearchParams(text)"),
	undefined(`URLPattern`, "use new URL(text), and a regular expression for its pathname"),
	undefined(`prompt|confirm`, "a program cannot ask a person: return the question"),
	undefined(`requestAnimationFrame`, "use setTimeout(f, 16)"),
	undefined(`PerformanceObserver`, "use performance.now()"),
	undefined(`React|ReactDOM|Vue|\$|jQuery|cheerio`, "there is no browser and no DOM: build strings, and read them with regular expressions"),
	undefined(`Temporal|moment|dayjs|luxon`, "use Date and Intl.DateTimeFormat"),
	undefined(`sleep|delay|wait`, "use await utils.sleep(milliseconds)"),
	undefined(`readFile|writeFile|readdir|readFileSync|writeFileSync|existsSync`, "files are behind fs: await fs.readFile('/workspace/…')"),
	undefined(`_`, "lodash is not loaded: use array methods, or import it if sandbox.packages offers it"),
	says(`\brequire is not (defined|a function)`,
		"require is global in programs and skills: const m = require('/skills/name.js')"),

	{
		message: `(?i)descriptor|undefined|not a function`, source: `(?s)\(\s*\w+(:\s*\w+)?,\s*\w+(:[^,()]+)?,\s*(descriptor|desc)\b.*@\w`,
		advice: "decorators are the standard ones: function (value, context), which returns what replaces value; there is no (target, key, descriptor)",
	},

	{
		kind: frame.KindSyntax, message: `^Expected ";" but found ":"`, source: `[;})]\s*\{\s*['"]?[\w$]+['"]?\s*:[^;{}]*,`,
		advice: "braces at the beginning of a statement are a block: to return an object, write return {…}",
	},

	// Mistakes with tools and their results.
	says(`\[object Promise\]`,
		"a promise was used as a value: put await before the call, and Promise.all around an array of promises"),
	{
		message: `"\[object Object\]" is not valid JSON|[Uu]nexpected token:? '?(o|object)'?( in JSON|$)`, source: `JSON\.parse`,
		advice: "the value is an object already: tools return parsed results, leave JSON.parse out",
	},
	{
		message: `JSON|^unexpected token: '`, source: `JSON\.parse`,
		advice: "the text is not JSON: print it with console.log first; utils.parseJSON(text) gives null instead of throwing",
	},
	{
		message: `(\w*\.?(map|filter|reduce|forEach|every|flatMap|slice|sort|join)\b.* is not a function|^not a function$)`,
		source:  `\.(map|filter|reduce|forEach|every|flatMap|slice|sort|join)\(`,
		advice: "the value is no array: print it with console.log(value); a result may hold its list in a property, and a " +
			"call needs await",
	},
	says(`^([\w$]+) is not a function$`, "$1 is a value here, and no function: print it with console.log($1)"),
	says(`^not a function$`, "what is called is no function: print it with console.log"),
	says(`^(.+) is not a constructor$`, "$1 is no class: print it with console.log($1)"),
	says(`(?i)is not iterable|value is not iterable`,
		"the value is no list: print it with console.log(value); a result may hold its list in a property, and a "+
			"call needs await"),
	says(`(?i)cannot (read|set) propert(y|ies) .*of (undefined|null)|(undefined|null) has no properties`,
		"the value before the dot is missing: print what it comes from with console.log, or use ?. where it may be absent"),
	says(`\bcircular (reference|structure)`, "leave out the property that leads back, or return what is needed of it"),
	says(`(?i)cannot (convert|mix) .*BigInt|BigInt.* to number`, "convert one of them: Number(big), or BigInt(number)"),
	says(`(?i)is not initialized|before initialization`, "it is used above its declaration: move the declaration up"),
	{
		message: `^'[\w$]+' is read-only$|Cannot assign to read only property`, source: `Object\.freeze|"use strict"|'use strict'|(?m)^\s*(import|export)\b`,
		advice: "declare a variable that is assigned again with let; a property of a frozen object cannot be assigned",
	},
	says(`is read-only|Assignment to constant|Cannot assign to ".*" because it is a constant`,
		"declare what is assigned again with let"),
	says(`Invalid time value|Date value is NaN`, "the text is no date that Date can read: print it with console.log"),
	{
		message: `(?i)await.* only .*async|"?await"? can only be used inside`, source: `await`,
		advice: `mark the function that contains it as async; at the top level await works as it is`,
	},

	// Runs and limits.
	{
		kind: frame.KindTimeout, source: `Date\.now\(\)|performance\.now\(\)|new Date\(`,
		advice: "a loop that watches the clock only burns time: wait with await utils.sleep(ms)",
	},
	{kind: frame.KindTimeout, advice: "look for an endless loop, do less in one run, or save partial results to /workspace"},
	{
		kind:   frame.KindNeverSettles,
		advice: "something is awaited that nothing will ever settle: check each new Promise for a path without resolve or reject",
	},
	{
		kind:   frame.KindMemory,
		advice: "keep less in memory: read files in ranges, page through results, and save partial results to /workspace",
	},
	{kind: frame.KindOutputLimit, advice: "return a summary, and write the whole to a file in /workspace"},
	{kind: frame.KindCallLimit, message: `\(pii\.maxTokens\)`, advice: ""}, // the message contains the advice
	{kind: frame.KindCallLimit, advice: "fetch more per call, or filter on the server's side"},
	says(`(?i)maximum call stack|stack overflow|too much recursion`,
		"the recursion has no end, or is too deep: use a loop"),
	{
		kind: frame.KindSyntax, message: `(?i)unexpected "?import|import declarations?`,
		advice: "import statements stand at the top level of a program",
	},
	{
		kind: frame.KindSyntax, message: `^Expected "[;{]" but found|^Unexpected "export"`,
		source: `(?m)^\s*((export|declare)\s+)*(namespace|module|global)\b[^=;()]*\{`,
		advice: "a namespace stands at the top level of a program or of another namespace",
	},
	{
		kind: frame.KindSyntax, message: `\bJSX\b|Expected ">" but found|The character "<"|Unexpected "[<>]"|unexpected end of the program|Expected identifier but found|` +
			`never closed|Unterminated regular expression`,
		source: `(?s)<[A-Za-z][\w.]*(\s[^<>]*)?(/>|>.*</[A-Za-z])|<>.*</>`, advice: "JSX is not supported: build strings, or return data",
	},
}

// Patterns of a line of prose at the beginning or the end of a program: words, and a punctuation mark at the end.
const (
	proseFirst = `\A\s*[A-Z][a-z]*('[a-z]+)?,?( [\w'’"()./-]+,?){2,}[:.!?]+[ \t]*\r?\n`
	proseLast  = `\n[A-Z][a-z]*('[a-z]+)?,?( [\w'’"()./-]+,?){3,}[:.!?]+\s*\z`
)

const htmlHint = "the program is escaped as HTML: send > for &gt;, < for &lt;, & for &amp; and \" for &quot;"

const toolsHint = "tools are called with await tools.SERVER.TOOL({…}), or await callMCPTool('SERVER__TOOL', {…}); " +
	"await search_mcp_tools('what you need') finds their names"

// otherProducts matches the globals by which programs of other products call tools.
const otherProducts = `codemode|mcp|MCP|mcp_?servers?|mcp_?tools?|servers?|toolbox|(mcp_?|MCP)?[cC]lient|mcp\w*Client|session|mcp_?[sS]ession|use_mcp_\w+|` +
	`_*(call|invoke|execute|run|use)_?(mcp_?)?tools?|(call|invoke|execute|run|use)(MCP|Mcp)?Tools?|call(MCP|Mcp)|call_mcp|mcp_?[cC]all|toolCall|tool_call`

const pythonHint = "this looks like Python: write JavaScript or TypeScript"

// says returns a row for errors with this message.
func says(message, advice string) hint { return hint{message: message, advice: advice} }

// undefined returns a row for names that nothing defines.
func undefined(names, advice string) hint {
	return says("^'?("+names+")'? is not defined", advice)
}

// pattern holds the compiled expressions of a row. An empty expression matches everything.
type pattern struct{ message, source *regexp.Regexp }

// patterns returns the patterns of the table. They are compiled when the first error needs advice.
var patterns = sync.OnceValue(func() []pattern {
	compiled := make([]pattern, len(hints))
	for i, h := range hints {
		compiled[i] = pattern{regexp.MustCompile(h.message), regexp.MustCompile(h.source)}
	}
	return compiled
})

// maxHinted is the number of bytes of a program that are searched for the cause of an error.
const maxHinted = 64 << 10

// Hint returns advice for an error of a program, or "". kind and message are those of frame.Error, name is the
// JavaScript class, and source is the program as written. Hint reads only the beginning of each, in linear time.
func Hint(kind, name, message, source string) string {
	if kind == frame.KindTool || kind == frame.KindDenied || kind == frame.KindInDoubt { // the message is the server's, not the engine's
		return ""
	}
	message, source = clip.Head(message, maxMessage), clip.Head(source, maxHinted)
	message = strings.TrimPrefix(message, clip.Head(name, maxName)+": ")
	for i, of := range patterns() {
		h := hints[i]
		match := of.message.FindStringSubmatch(message)
		if match == nil || h.kind != "" && h.kind != kind || !of.source.MatchString(source) {
			continue
		}
		if len(match) > 1 {
			return strings.ReplaceAll(h.advice, "$1", clip.Head(match[1], maxName))
		}
		return h.advice
	}
	if match := notDefined().FindStringSubmatch(message); match != nil {
		return misspelt(clip.Head(match[1], maxName), source)
	}
	return ""
}

// IsOtherProducts reports whether name is undefined here and a global by which programs of other products call tools.
func IsOtherProducts(name string) bool {
	return Hint(frame.KindRuntime, "ReferenceError", name+" is not defined", "") == toolsHint
}

// IsKnownAbsent reports whether the table of hints knows a name that other platforms define and programs here lack.
func IsKnownAbsent(name string) bool {
	advice := Hint(frame.KindRuntime, "ReferenceError", name+" is not defined", "")
	return advice != "" && advice != toolsHint && advice != misspelt(name, "")
}

var notDefined = startup.Regexp(`^'?([A-Za-z_$][\w$]*)'? is not defined`)
