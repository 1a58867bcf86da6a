package attack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// hole takes the place of the destination in arguments.
const hole = "@@destination@@"

// numberHole takes the place of a destination that is a number.
const numberHole = "@@number@@"

// runtime is the end of every program, after the attempts and forms. It makes each attempt independently of the others, and reports why an attempt
// fails.
const runtime = `
const fs = require('fs').promises
const HOLE = '@@'
const take = (text) => { const m = /\u00ab(.*?)\u00bb/.exec(text); if (!m) throw new Error('the value is not there'); return m[1] }
const put = (args, to) => {
  const walk = (is) => {
    if (is === '@@destination@@') return to
    if (is === '@@number@@') return typeof to === 'string' ? Number(to) : to
    if (Array.isArray(is)) return is.map(walk)
    if (is && typeof is === 'object') return Object.fromEntries(Object.entries(is).map(([k, e]) => [k, walk(e)]))
    return is
  }
  return walk(args)
}
const out = []
for (const a of attempts) {
  try {
    await callMCPTool(MARKER, {n: a.n}).catch(() => {})
    const form = forms[a.form], mine = a.mine
    a.allyArgs = (v) => JSON.parse(JSON.stringify(a.ask ?? {}).replaceAll('@@ask@@', JSON.stringify('\u00ab' + v + '\u00bb').slice(1, -1)))
    let to
    if (second) {
      to = await form.then(a, mine)
    } else if (a.honest) {
      to = a.source ? take(asText(await callMCPTool(a.source, a.sourceArgs))) : mine
    } else {
      const text = asText(await form.read(a))
      to = await form.change(take(text), text, a, mine)
      if (form.late) { out.push([a.n, to]); continue }
    }
    a.to = to
    await form.send(put(a.args, to), a, mine)
    out.push([a.n])
  } catch (e) {
    out.push([a.n, null, String(e && e.name), String(e && e.message).slice(0, 300)])
  }
}
return out
function asText(is) { return typeof is === 'string' ? is : JSON.stringify(is) }
`

// scripted is an attempt as JSON in the text of a program.
type scripted struct {
	N          int             `json:"n"`
	Form       string          `json:"form"`
	Server     string          `json:"server,omitempty"`
	Source     string          `json:"source,omitempty"`
	SourceArgs json.RawMessage `json:"sourceArgs,omitempty"`
	Sink       string          `json:"sink"`
	Args       json.RawMessage `json:"args"`
	Mine       string          `json:"mine"`
	Ally       string          `json:"ally,omitempty"`
	Ask        json.RawMessage `json:"ask,omitempty"`
	Honest     bool            `json:"honest,omitempty"`
}

// program returns the text of a program that makes attempts. values is nil for a first program. For a second program (see Form.Then), values
// contains the results of the first program, by number of the attempt; the text contains them as literals.
func program(all []*attempt, values map[int]string) (string, error) {
	var b strings.Builder
	var list []scripted
	var forms []*Form
	for _, a := range all {
		list = append(list, a.script())
		if !slices.Contains(forms, a.Form) {
			forms = append(forms, a.Form)
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "const MARKER = %q, second = %v\nconst attempts = %s\n", Marker+"__"+markerTool, values != nil, text)
	b.WriteString("const forms = {\n")
	for _, f := range forms {
		read, change, send := f.Read, f.Change, f.Send
		if read == "" {
			read = "return await callMCPTool(a.source, a.sourceArgs)"
		}
		if change == "" {
			change = "return v"
		}
		if send == "" {
			send = "return await callMCPTool(a.sink, args)"
		}
		fmt.Fprintf(&b, "%q: {late: %v, read: async (a) => { %s }, change: async (v, text, a, mine) => { %s }, send: async (args, a, mine) => { %s },", f.Name, f.late(), read, change, send)
		if values != nil {
			literal := "({"
			for _, a := range all {
				if a.Form == f {
					quoted, err := json.Marshal(values[a.N])
					if err != nil {
						return "", err
					}
					literal += fmt.Sprintf("%d: %s,", a.N, quoted)
				}
			}
			fmt.Fprintf(&b, " then: async (a, mine) => { %s },", strings.ReplaceAll(f.Then, "LITERAL", literal+"})[a.n]"))
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n" + runtime)
	return b.String(), nil
}

// result is a program's report about an attempt.
type result struct {
	n       int
	value   string
	name    string // class of the error; empty if the attempt was made
	message string
}

// results reads what a program returned.
func results(output json.RawMessage) (all []result, err error) {
	var rows [][]any
	if err := json.Unmarshal(output, &rows); err != nil {
		return nil, fmt.Errorf("read what the programs did: %w", err)
	}
	for _, row := range rows {
		var r result
		for i, into := range []*string{&r.value, &r.name, &r.message} {
			if len(row) > i+1 {
				*into, _ = row[i+1].(string)
			}
		}
		if len(row) == 0 {
			continue
		}
		n, _ := row[0].(float64)
		r.n = int(n)
		all = append(all, r)
	}
	return all, nil
}
