package wiring_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/runs"
)

// detours are ways in which the value g, a text of the program itself, comes back as a token. Each defines back.
var detours = map[string]string{
	"a literal that is computed": `const back = g`,
	"a file":                     `await fs.writeFile('/workspace/f', g); const back = await fs.readFile('/workspace/f')`,
	"a file in two parts":        `await fs.writeFile('/workspace/f', g.slice(0, 5)); await fs.appendFile('/workspace/f', g.slice(5)); const back = await fs.readFile('/workspace/f')`,
	"a part of a file":           `await fs.writeFile('/workspace/f', g.slice(0, 5)); await fs.appendFile('/workspace/f', g.slice(5)); const back = await fs.readFile('/workspace/f', {offset: 0, length: 99})`,
	"bytes":                      `await fs.writeFile('/workspace/f', Buffer.from(g.slice(0, 5))); await fs.appendFile('/workspace/f', Buffer.from(g.slice(5))); const back = String(await fs.readFile('/workspace/f'))`,
	"a copy":                     `await fs.writeFile('/workspace/f', g.slice(0, 5)); await fs.appendFile('/workspace/f', g.slice(5)); await fs.copyFile('/workspace/f', '/workspace/h'); const back = await fs.readFile('/workspace/h')`,
	"a renamed file":             `await fs.writeFile('/workspace/f', g.slice(0, 5)); await fs.appendFile('/workspace/f', g.slice(5)); await fs.rename('/workspace/f', '/workspace/h'); const back = await fs.readFile('/workspace/h')`,
	"rows":                       `await fs.writeFile('/workspace/f', '{"rows":[["' + g + '"]]}'); const back = JSON.parse(await fs.readFile('/workspace/f')).rows[0][0]`,
	"a skill's text":             `await fs.writeFile('/skills/guess.txt', g.slice(0, 5)); await fs.appendFile('/skills/guess.txt', g.slice(5)); const back = await fs.readFile('/skills/guess.txt')`,
	"a skill's code":             `await fs.writeFile('/skills/guess.js', 'exports.x = "' + g.slice(0, 5)); await fs.appendFile('/skills/guess.js', g.slice(5) + '"'); const back = (await import('/skills/guess.js')).x`,
	"a module of the workspace":  `await fs.writeFile('/workspace/guess.js', 'exports.x = "' + g.slice(0, 5)); await fs.appendFile('/workspace/guess.js', g.slice(5) + '"'); const back = require('/workspace/guess.js').x`,
	"an unknown tool":            `let back; try { await callMCPTool('crm__' + g) } catch (e) { back = e.message }`,
	"an unknown server":          `let back; try { await read_mcp_resource(g, 'x') } catch (e) { back = e.message }`,
	"a file that is missing":     `let back; try { await fs.readFile('/workspace/' + g) } catch (e) { back = e.message }`,
	"a list of files":            `await fs.mkdir('/workspace/d', {recursive: true}); await fs.writeFile('/workspace/d/' + g, ''); const back = (await fs.readdir('/workspace/d')).join()`,
	"details of a tool":          `let back; try { back = JSON.stringify(await get_mcp_tool_details(g)) } catch (e) { back = e.message }`,
	"an echo":                    `const back = (await callMCPTool('echo__say', {how: 'plain', text: g})).said`,
	"an echo in base64":          `const back = (await callMCPTool('echo__say', {how: 'base64', text: g})).said`,
	"an echo glued to letters":   `const back = (await callMCPTool('echo__say', {how: 'plain', text: 'x' + g + 'x'})).said`,
}

// TestGuesses: a program that writes a customer's value in its own code and has it come back gets another token than the customer's, so it cannot learn that
// its guess was right. The rules for the CRM's data do not allow sending this token. The customer's own token comes back in the same ways, and may be sent
// where the rule allows it.
func TestGuesses(t *testing.T) {
	t.Parallel()
	inForms(t, func(t *testing.T, tokens string) {
		m := newMarketWith(t, mailRule+`, {tools: "echo__*", action: allow}`, tokens)
		of := customers(2, 7)[0]
		for name, detour := range detours {
			program := "const c = await callMCPTool('crm__search', {q: ''}); const learned = {}\n"
			for kind, value := range map[string]string{"email": of.Email, "ssn": of.SSN, "ip": of.IP} {
				parts, err := json.Marshal(strings.Split(value, ""))
				if err != nil {
					t.Fatal(err)
				}
				program += fmt.Sprintf(`try {
  const g = %[1]s.join(''); %[2]s
  const part = c.%[3]s.split('@')[1] ?? c.%[3]s.match(/^\d+\.\d+\.\d+/)?.[0] ?? c.%[3]s
  const tokens = String(back).match(/%[4]s/g) ?? []
  let sent = false
  for (const to of tokens) try { await callMCPTool('mailer__send', {to}); sent = true } catch {}
  learned.%[3]s = [String(back).includes(c.%[3]s), String(back).includes(part), sent]
} catch (e) { learned.%[3]s = e.message.includes('only this session knows') ? [false, false, false] : e.message }
`, parts, strings.ReplaceAll(detour, "guess", "guess_"+kind), kind, tokenPattern)
			}
			out := m.exec(runs.Request{Session: name, Code: program + "return [learned.email, learned.ssn, learned.ip]"})
			if string(out.Output) != "[[false,false,false],[false,false,false],[false,false,false]]" {
				t.Errorf("%s: it has learned and sent %s, %+v", name, out.Output, out.Error)
			}
		}
		m.clean("mailer", "web")
		for name, detour := range detours {
			if strings.Contains(detour, "/skills/") || strings.Contains(detour, "slice") { // Skills contain no tokens, and a part of a token is no token.
				continue
			}
			out := m.exec(runs.Request{Session: "honest" + name, Code: fmt.Sprintf(`const c = await callMCPTool('crm__search', {q: ''}); const g = c.email; %s
return String(back).includes(c.email) || (await callMCPTool('mailer__send', {to: c.email})) === 'done'`, detour)})
			if string(out.Output) != "true" {
				t.Errorf("%s: the token comes back as %s, %+v", name, out.Output, out.Error)
			}
		}
	})
}
