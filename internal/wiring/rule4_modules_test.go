package wiring_test

import (
	"testing"

	"mcp-code-exec-harness/internal/frame"
)

// Rule 4, modules: a run is replayed with the modules that it had, as they were compiled for it.
func TestRuleModules(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, newUpstream(t, "up").entry)
	skill := func(version string) {
		f.exec(code(`await fs.writeFile('/skills/a.ts', 'export const version: string = "` + version + `"'); await fs.writeFile('/skills/b.js', 'exports.version = "` + version + `"')`))
	}
	skill("one")
	const program = `
import { version } from '/skills/a.ts'
import * as up from './servers/up'
const late = await import('/skills/a.ts')
return [version, require('/skills/b.js').version, late.version, (await up.read({ x: 1 })).x]`
	out := f.exec(code(program))
	if got, want := string(out.Output), `["one","one","one",1]`; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	records := f.journalOf(out.RunID)
	skill("two")
	if again := f.replayed(records, ""); again.Error != nil || string(again.Output) != string(out.Output) {
		t.Errorf("after the skills were changed: %s, %+v", again.Output, again.Error)
	}
	// If the program is given, it is compiled again with its static imports.
	if again := f.replayed(records, program); kind(again) != frame.KindDiverged {
		t.Errorf("the given program was not compiled: %s, %+v", again.Output, again.Error)
	}
	f.exec(code(`await fs.deleteFile('/skills/a.ts'); await fs.deleteFile('/skills/b.js')`))
	if again := f.replayed(records, ""); again.Error != nil || string(again.Output) != string(out.Output) {
		t.Errorf("after the skills were deleted: %s, %+v", again.Output, again.Error)
	}
	if again := f.replayed(records, program); kind(again) != frame.KindSyntax {
		t.Errorf("a given program with an import that is gone ended as %+v", again.Error)
	}
	live := f.exec(code(program))
	if kind(live) != frame.KindSyntax {
		t.Errorf("a new run found a deleted skill: %s", live.Output)
	}
}

// An error in a module that was loaded while the program ran has the same position in a replay.
func TestRuleModulesKeepTheirMaps(t *testing.T) {
	t.Parallel()
	f := setup(t, nil)
	f.exec(code(`await fs.writeFile('/skills/bad.ts', 'export type T = string\n\nexport function fail(x: T): never {\n  throw new Error(x)\n}\n')`))
	out := f.exec(code(`const bad = await import('/skills/bad.ts'); bad.fail('oh')`))
	if kind(out) != frame.KindRuntime || out.Error.File != "/skills/bad.ts" || out.Error.Line != 4 {
		t.Fatalf("%+v", out.Error)
	}
	again := f.replayed(f.journalOf(out.RunID), "")
	if again.Error == nil || again.Error.File != out.Error.File || again.Error.Line != out.Error.Line || again.Error.Stack != out.Error.Stack {
		t.Errorf("replay: %+v, recorded: %+v", again.Error, out.Error)
	}
}
