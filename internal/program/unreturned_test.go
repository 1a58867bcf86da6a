package program

import (
	"strings"
	"testing"
	"time"
)

func TestUnreturned(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"const x = 1; x + 1": "return x + 1",
		"const x = 1\nx\n":   "return x",
		"const x = 1;\n({ x,\n  y: x === 2 ? 'a' : 'b' });":                  "return ({ x, y: x === 2 ? 'a' : 'b' })",
		"const r = await f()\nr.items.length":                                "return r.items.length",
		"async function main() { return 5 }\nmain()":                         "return await main()",
		"main()\nasync function main() { return 5 }":                         "return await main()",
		"main(); async function main(){}":                                    "return await main()",
		"main();\nfunction a() {}\n\nasync function main() { return a() }\n": "return await main()",
		"const x = 1\nx + 1\nfunction f() {}":                                "return x + 1",
		"function a() {}\nfunction b() {}":                                   "",
		"if (a) { b }\nfunction b() {}":                                      "return b",
		"async function main() { return 5 } main()":                          "return await main()",
		"function* g() {} async function f() { return 5 } f();":              "return await f()",
		"const f = function g() { return 5 } (1)":                            "",
		"const main = async () => { return 5 };\nmain().catch(f => f)":       "return await main()",
		"function main(): Promise<void> { g() }\nawait main(1, [2]);":        "return await main(1, [2])",
		"if (a) { return 1 }\nb":                                             "return b",
		"if (a) { return }\nb":                                               "",
		"function f() { if (a) { return 1 } }\nb":                            "return b",
		"class A { m() { return 1 } }\nb":                                    "return b",
		"a()":                                                                "",
		"const a = 1\na()":                                                   "return await a()",
		"let a = 1\na = 2":                                                   "",
		"let a = 1\na++":                                                     "",
		"let a = 1\n`x${a}`":                                                 "return `x${a}`",
		"let a = 1\na == 2":                                                  "return a == 2",
		"const x = 5; if (x > 3) { x * 2 }":                                  "return x * 2",
		"const a = 1\n\nawait fs.writeFile('/workspace/a', 'b')":             "",
		"for (const a of b) {\n  a\n}":                                       "",
		"import 'util'\nconst x = 1\nx":                                      "return x",
		"const x = 1\nexport default x":                                      "",
		"const x = 1\nreturn x":                                              "",
		"const x =\n1":                                                       "",
		"const o = { return: 1 }\no.return":                                  "return o.return",
		"'use strict'\nconst x = [1,\n2]\nx\n  .length":                      "return x .length",
		"const x = 1\n;x":                                                    "return x",
		"throw 1":                                                            "",
		"":                                                                   "",

		// calls that are meant for their values
		"let a\na.map((x) => x.name)":                                               "return a.map((x) => x.name)",
		"let a\na.map(x => { seen.add(x); return x.n }).filter(Boolean).length":     "return a.map(x => { seen.add(x); return x.n }).filter(Boolean).length",
		"let a\na.reduce((s, x) => { s.push(x.price); return s }, [])":              "return a.reduce((s, x) => { s.push(x.price); return s }, [])",
		"let a\nJSON.stringify(a, null, 2);":                                        "return JSON.stringify(a, null, 2)",
		"let a\nObject.assign({}, a)":                                               "return Object.assign({}, a)",
		"let a\nnew Set(a).size":                                                    "return new Set(a).size",
		"let a\n;[...new Set(a.map(x => x.id))]":                                    "return [...new Set(a.map(x => x.id))]",
		"let a\na?.b?.()":                                                           "return a?.b?.()",
		"let a\na.b[0](1)":                                                          "return a.b[0](1)",
		"let a\na <= b(1)":                                                          "return a <= b(1)",
		"let a\ntypeof f(a)":                                                        "return typeof f(a)",
		"let a\na.length > 0 ? a.join(', ') : console.log('none')":                  "return a.length > 0 ? a.join(', ') : console.log('none')",
		"let a\na && a.find((x) => x.ok)":                                           "return a && a.find((x) => x.ok)",
		"let a\n`${a.map((x) => x.name).join()}`":                                   "return `${a.map((x) => x.name).join()}`",
		"let a\nString.raw`${a}`":                                                   "return String.raw`${a}`",
		"let a\nawait a":                                                            "return await a",
		"let a\nawait tools.shop.listItems({ a })":                                  "return await tools.shop.listItems({ a })",
		"let a\nawait tools['shop']['list-items']({ a })":                           "return await tools['shop']['list-items']({ a })",
		"let a\nawait callMCPTool('shop__list_items', { a })":                       "return await callMCPTool('shop__list_items', { a })",
		"let a\n;(await tools.crm.createContact({ a })).id":                         "return (await tools.crm.createContact({ a })).id",
		"let a\ntools.shop.get({ a }).then((r) => r.name).catch(() => null)":        "return tools.shop.get({ a }).then((r) => r.name).catch(() => null)",
		"let a\nawait Promise.all(a.map((id) => tools.shop.getItem({ id })))":       "return await Promise.all(a.map((id) => tools.shop.getItem({ id })))",
		"let a\nawait fs.readFile('/workspace/a')":                                  "return await fs.readFile('/workspace/a')",
		"let a\nawait (async () => { return a.b })()":                               "return await (async () => { return a.b })()",
		"let a\n;(() => a.length)()":                                                "return (() => a.length)()",
		"let a\nf(a) as string[]":                                                   "return f(a) as string[]",
		"for (const a of b) { c.push(a) } c":                                        "return c",
		"for await (const a of b) { c.push(a) }\nc.join()":                          "return c.join()",
		"try {\n  const r = await f()\n  r.map(x => x.id)\n} catch (e) { throw e }": "return r.map(x => x.id)",
		"let a\nif (a) { log(a) } else { f(a).total }":                              "return f(a).total",
		"const a = 1, b = 2\n{ a, b }":                                              "return { a, b }",
		"let a; function count(x) { return x.length }\ncount(a).toString()":         "return count(a).toString()",

		// calls that are meant for their effects, and expressions without a value
		"let a\na.forEach((x) => x.b())":                                             "",
		"let a\na.push(1)":                                                           "",
		"let a\na ? a.set(1, 2) : a.delete(1)":                                       "",
		"let a\nconsole.log(a.map((x) => x))":                                        "",
		"let a\na || console.error('none')":                                          "",
		"let a\na = a.map((x) => x)":                                                 "",
		"let a\na.b.c ||= f(a)":                                                      "",
		"let a\na >>= f(1)":                                                          "",
		"let a\nawait tools.crm.updateContact({ a })":                                "",
		"let a\nawait tools.crm['create-contact']({ a })":                            "",
		"let a\nawait callMCPTool('crm__send_mail', { a })":                          "",
		"let a\nawait Promise.all(a.map((id) => tools.shop.deleteItem({ id })))":     "",
		"let a\na.map(async (x) => { await callMCPTool('crm__send_mail', { x }) })":  "",
		"let a\nawait fs.appendFile('/workspace/a', a).catch(() => null)":            "",
		"let a\nawait new Promise((resolve) => setTimeout(resolve, 10))":             "",
		"let a\nsetTimeout(() => a(), 10)":                                           "",
		"let a\nawait utils.sleep(10)":                                               "",
		"let a\n;(async () => { await tools.crm.sendMail({ a }) })()":                "",
		"let a\nvoid f(a)":                                                           "",
		"let a\n() => a":                                                             "",
		"let a\nif (a) { await tools.crm.sendMail({ a }) }":                          "",
		"try {\n  await tools.crm.sendMail({ a })\n} catch (e) { console.error(e) }": "",
		"const a = 1\n{ let b = a }":                                                 "",
	} {
		if want != "" {
			want = "nothing was returned: write " + want
		}
		c, err := Compile(t.Context(), Source{Code: code}, Options{})
		if err != nil {
			t.Errorf("%q: %v", code, err)
		} else if c.Program.Unreturned != want {
			t.Errorf("%q: got %q, want %q", code, c.Program.Unreturned, want)
		}
	}
}

// TestUnreturnedExports contains programs whose result may be an export.
func TestUnreturnedExports(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"export const result = [1].map(x => x)":                      "return result",
		"export let a = 1;\nexport const b = 2":                      "return b",
		"export async function main() { return 1 }":                  "return await main()",
		"export class A {}":                                          "",
		"export const a = 1\nexport default a":                       "",
		"export const a = 1\nreturn a":                               "",
		"import { join } from 'path'\nexport const a = join('b')":    "return a",
		"export interface A { b: string }\nexport type C = A | null": "",
	} {
		if want != "" {
			want = "exports of a program are not its result: write " + want
		}
		c, err := Compile(t.Context(), Source{Code: code}, Options{})
		if err != nil {
			t.Errorf("%q: %v", code, err)
		} else if c.Program.Unreturned != want {
			t.Errorf("%q: got %q, want %q", code, c.Program.Unreturned, want)
		}
	}
}

// TestUnreturnedIsBounded contains last expressions that nest deeply or are very long.
func TestUnreturnedIsBounded(t *testing.T) {
	t.Parallel()
	const n = 20000
	for _, code := range []string{
		"a" + strings.Repeat("?b:a", n), strings.Repeat("(", n) + "a" + strings.Repeat(")", n), "a" + strings.Repeat(".b()", n),
		strings.Repeat("Promise.all(", n) + strings.Repeat(")", n), strings.Repeat("if(a){", n) + strings.Repeat("}", n), strings.Repeat("a&&", n) + "b",
		"a" + strings.Repeat(",b", n), strings.Repeat("a.map(f(", 400) + strings.Repeat("))", 400),
	} {
		began := time.Now()
		tokenize("let a\n" + code).unreturned()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%.40s: %s", code, took)
		}
	}
}
