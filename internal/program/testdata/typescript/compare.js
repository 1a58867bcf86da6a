// Reads {code, blanked} as JSON lines; writes for each what TypeScript's parser finds: {declarations: [[kind, start, end]]}
// with byte offsets, {skip: true} for code that does not parse, and `differs` if a statement that is no import is not
// the same in blanked, the code with its imports blanked.
'use strict';
const fs = require('node:fs');
const { createRequire } = require('node:module');
const ts = createRequire(process.argv[2] + '/')('typescript');

const parse = (code) => ts.createSourceFile('program.ts', code, ts.ScriptTarget.ESNext, true, ts.ScriptKind.TS);

function kindOf(statement) {
  if (ts.isImportDeclaration(statement)) return 'import';
  if (ts.isExportDeclaration(statement)) return statement.moduleSpecifier ? 'export from' : 'export list';
  if (ts.isExportAssignment(statement)) return 'export value';
  const isDefault = statement.modifiers?.some((m) => m.kind === ts.SyntaxKind.DefaultKeyword);
  if (isDefault && !statement.name) return 'export value'; // an anonymous function or class
  return '';
}

function examine({ code, blanked }) {
  const file = parse(code);
  if (file.parseDiagnostics.length > 0) return { skip: true };
  const bytes = (offset) => Buffer.byteLength(code.slice(0, offset));
  const declarations = [];
  const rest = [];
  for (const statement of file.statements) {
    const kind = kindOf(statement);
    const start = statement.getStart(file);
    if (kind) declarations.push([kind, bytes(start), kind === 'export value' ? 0 : bytes(statement.end)]);
    if (kind !== 'import') rest.push([ts.SyntaxKind[statement.kind], start, statement.end, statement.getText(file)]);
  }
  // Having read a top-level await twice, TypeScript may list the statements behind it twice.
  if (new Set(declarations.map(String)).size < declarations.length) return { skip: true };
  const remaining = parse(blanked);
  // Where an import was, a semicolon is: a statement of its own, or the end of the one before.
  const imports = new Set(file.statements.filter((s) => kindOf(s) === 'import').map((s) => s.getStart(file)));
  const kept = [];
  for (const s of remaining.statements) {
    if (ts.isEmptyStatement(s) && imports.has(s.getStart(remaining))) continue;
    const like = rest[kept.length];
    const end = imports.has(s.end - 1) && like ? like[2] : s.end;
    kept.push([ts.SyntaxKind[s.kind], s.getStart(remaining), end, blanked.slice(s.getStart(remaining), end)]);
  }
  const differs = JSON.stringify(rest) !== JSON.stringify(kept);
  return differs ? { declarations, differs: JSON.stringify({ rest, kept }) } : { declarations };
}

const lines = fs.readFileSync(0, 'utf8').split('\n').filter(Boolean);
process.stdout.write(lines.map((line) => JSON.stringify(examine(JSON.parse(line)))).join('\n') + '\n');
