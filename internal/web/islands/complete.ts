// Completion of programs: names of servers and tools, fields of arguments and answers by the tools' types, and what the sandbox has. Names and texts of
// tools are their servers': they are shown as text, and written as identifiers or strings.

import { type Completion, type CompletionContext, type CompletionResult, type CompletionSource } from '@codemirror/autocomplete';
import { localCompletionSource } from '@codemirror/lang-javascript';
import { syntaxTree } from '@codemirror/language';
import type { EditorState } from '@codemirror/state';
import type { SyntaxNode } from '@lezer/common';

import all from './globals.json';

// globals are the names that a program has beside tools, with what is behind their points.
const globals = new Map<string, { about: string; members?: Record<string, string> }>(Object.entries(all));

// Tool is a tool in the list at data-tools, Outline what the values of a type are: fields, within so many arrays.
interface Tool { server: string; function: string; name: string; about: string }
interface Outline { type: string; items?: number; fields?: Field[] }
interface Field extends Outline { name: string; about?: string; optional?: boolean }
interface Details { arguments: Outline; answer: Outline }

const arrayMembers = ['at', 'every', 'filter', 'find', 'findLast', 'flatMap', 'forEach', 'includes', 'join', 'length', 'map', 'pop', 'push', 'reduce', 'slice', 'some', 'sort', 'toSorted'];
const sameArray = ['filter', 'slice', 'sort', 'toSorted', 'reverse', 'toReversed'];
const oneItem = ['at', 'find', 'findLast', 'pop', 'shift'];

// isName says whether a text is written as a property without quotation marks.
const isName = (text: string): boolean => /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(text);

// written is a text as a string of JavaScript whose characters can all be seen.
const written = (text: string): string => JSON.stringify(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (all) => [...Array(all.length).keys()].map((i) => '\\u' + all.charCodeAt(i).toString(16).padStart(4, '0')).join(''));

const property = (name: string): string => (isName(name) ? name : written(name));

async function load<T>(url: string): Promise<T> {
  const answer = await fetch(url);
  if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
  return await answer.json();
}

// Catalog asks the server, for each thing once.
class Catalog {
  private asked = new Map<string, Promise<unknown>>();
  constructor(private url: string) {}

  private once<T>(url: string, otherwise: T): Promise<T> {
    let answer = this.asked.get(url) as Promise<T> | undefined;
    if (!answer) {
      answer = load<T>(url).catch(() => (this.asked.delete(url), otherwise));
      this.asked.set(url, answer);
    }
    return answer;
  }

  tools = (): Promise<Tool[]> => this.once<Tool[]>(this.url, []);
  details = (name: string): Promise<Details | undefined> => this.once<Details | undefined>(`${this.url}/${encodeURIComponent(name)}`, undefined);
}

const element = (of?: Outline): Outline | undefined => (of?.items ? { ...of, items: of.items - 1 } : undefined);
const field = (of: Outline | undefined, name: string): Outline | undefined => (of?.items ? undefined : of?.fields?.find((f) => f.name === name));

// Program is what the text says before a position.
class Program {
  constructor(private state: EditorState, private catalog: Catalog) {}

  text = (n: SyntaxNode | null | undefined): string => (n ? this.state.sliceDoc(n.from, n.to) : '');

  // nameOf is the name of a property: an identifier or a string.
  private nameOf(n: SyntaxNode | null | undefined): string {
    const text = this.text(n);
    return n?.name === 'String' ? text.slice(1, -1) : text;
  }

  // path is the names of a chain of members, such as tools.crm.search; empty for anything else.
  path(n: SyntaxNode | null): string[] {
    if (n?.name === 'VariableName') return [this.text(n)];
    if (n?.name !== 'MemberExpression' || n.lastChild?.name !== 'PropertyName') return [];
    const before = this.path(n.firstChild);
    return before.length ? [...before, this.text(n.lastChild)] : [];
  }

  // called is the details of the tool that a call is of, and which of its arguments is the tool's.
  async called(call: SyntaxNode | null): Promise<{ of?: Details; at: number }> {
    if (call?.name !== 'CallExpression') return { at: 0 };
    const path = this.path(call.firstChild);
    if (path[0] === 'callMCPTool') {
      const name = call.lastChild?.getChild('String');
      return { of: name ? await this.catalog.details(this.nameOf(name)) : undefined, at: 1 };
    }
    const tool = path[0] === 'tools' && path.length === 3 ? (await this.catalog.tools()).find((t) => t.server === path[1] && t.function === path[2]) : undefined;
    return { of: tool && await this.catalog.details(tool.name), at: 0 };
  }

  // typeOf is what a value is. Of promises it is what they give.
  async typeOf(n: SyntaxNode | null | undefined, depth = 0): Promise<Outline | undefined> {
    if (!n || depth > 20) return undefined;
    const next = (of: SyntaxNode | null | undefined): Promise<Outline | undefined> => this.typeOf(of, depth + 1);
    switch (n.name) {
      case 'AwaitExpression': return next(n.lastChild);
      case 'ParenthesizedExpression': return next(n.firstChild?.nextSibling);
      case 'VariableName': return this.variable(this.text(n), n.from, depth + 1);
      case 'MemberExpression': {
        const of = await next(n.firstChild);
        return n.lastChild?.name === 'PropertyName' ? field(of, this.text(n.lastChild)) : element(of);
      }
      case 'CallExpression': {
        const { of } = await this.called(n);
        const callee = n.firstChild;
        if (of || callee?.name !== 'MemberExpression') return of?.answer;
        const method = this.text(callee.lastChild), array = await next(callee.firstChild);
        if (!array?.items) return undefined;
        return sameArray.includes(method) ? array : oneItem.includes(method) ? element(array) : undefined;
      }
    }
    return undefined;
  }

  // variable is what the last definition of a name before a position gives it.
  private async variable(name: string, before: number, depth: number): Promise<Outline | undefined> {
    let found: SyntaxNode | undefined;
    syntaxTree(this.state).iterate({
      to: before,
      enter: (n) => { if (n.name === 'VariableDefinition' && n.to <= before && this.text(n.node) === name) found = n.node; },
    });
    const parent = found?.parent;
    if (!found || !parent) return undefined;
    switch (parent.name) {
      case 'VariableDeclaration': {
        let n = found.nextSibling;
        while (n && n.name !== 'Equals' && n.name !== 'VariableDefinition') n = n.nextSibling;
        return n?.name === 'Equals' ? this.typeOf(n.nextSibling, depth) : undefined;
      }
      case 'PatternProperty': {
        const pattern = parent.parent, declaration = pattern?.parent;
        if (declaration?.name !== 'VariableDeclaration') return undefined;
        return field(await this.typeOf(declaration.lastChild?.name === ';' ? declaration.lastChild.prevSibling : declaration.lastChild, depth), this.text(parent.firstChild));
      }
      case 'ForOfSpec': return element(await this.typeOf(parent.lastChild?.prevSibling, depth));
      case 'ParamList': {
        const call = parent.parent?.parent?.parent, callee = call?.firstChild;
        if (call?.name !== 'CallExpression' || callee?.name !== 'MemberExpression') return undefined;
        return element(await this.typeOf(callee.firstChild, depth));
      }
    }
    return undefined;
  }

  // argument is the type of an object that is written in the arguments of a tool.
  async argument(object: SyntaxNode, depth = 0): Promise<Outline | undefined> {
    const parent = object.parent;
    if (!parent || depth > 20) return undefined;
    if (parent.name === 'Property' && parent.parent) return field(await this.argument(parent.parent, depth + 1), this.nameOf(parent.firstChild));
    if (parent.name === 'ArrayExpression') return element(await this.argument(parent, depth + 1));
    if (parent.name !== 'ArgList') return undefined;
    const { of, at } = await this.called(parent.parent);
    let i = 0;
    for (let n = object.prevSibling; n; n = n.prevSibling) if (n.name === ',') i++;
    return i === at ? of?.arguments : undefined;
  }
}

const info = (type: string, about = ''): string | undefined => [type, about].filter(Boolean).join('\n\n') || undefined;

const fields = (of: Outline, suffix: string): Completion[] => (of.fields ?? []).map((f) => ({
  label: property(f.name), detail: (f.optional ? '?: ' : ': ') + (f.type.length > 40 ? f.type.slice(0, 39) + '…' : f.type), apply: property(f.name) + suffix, type: 'property', info: info(f.type, f.about), boost: f.optional ? 1 : 2,
}));

// members are what stands behind the point of a member of an object.
async function members(program: Program, catalog: Catalog, object: SyntaxNode): Promise<Completion[]> {
  const path = program.path(object);
  if (path[0] === 'tools' && path.length < 3) {
    const tools = await catalog.tools();
    if (path.length === 2) return tools.filter((t) => t.server === path[1]).map((t) => ({ label: t.function, type: 'function', info: info(t.name, t.about) }));
    return [...new Set(tools.map((t) => t.server))].map((server) => ({ label: server, type: 'namespace' }));
  }
  const known = path.length === 1 ? globals.get(path[0])?.members : undefined;
  if (known) return Object.entries(known).map(([label, about]) => ({ label, type: 'function', info: about }));
  const of = await program.typeOf(object);
  if (of?.items) return arrayMembers.map((label) => ({ label, type: 'method' }));
  return of ? fields(of, '').filter((c) => isName(c.label)) : [];
}

// complete makes the source of completions for the tools in the list at url.
export function complete(url: string): CompletionSource[] {
  const catalog = new Catalog(url);
  const own: CompletionSource = async (context: CompletionContext): Promise<CompletionResult | null> => {
    const { state, pos } = context;
    const program = new Program(state, catalog);
    const at = syntaxTree(state).resolveInner(pos, -1), parent = at.parent;
    const answer = (from: number, options: Completion[]): CompletionResult | null => (options.length && !context.aborted ? { from, options, validFor: /^[\p{ID_Continue}$]*$/u } : null);
    if (/Comment|TemplateString/.test(at.name)) return null;
    if (at.name === 'String') {
      if (parent?.name !== 'ArgList' || program.text(parent.parent?.firstChild) !== 'callMCPTool' || parent.getChild('String')?.from !== at.from) return null;
      return answer(at.from + 1, (await catalog.tools()).map((t) => ({ label: written(t.name).slice(1, -1), type: 'function', info: info(`tools.${t.server}.${t.function}`, t.about) })));
    }
    const point = at.name === '.' || at.name === '?.' ? at : at.name === 'PropertyName' ? at.prevSibling : null;
    if (point && parent?.name === 'MemberExpression') {
      return parent.firstChild ? answer(point === at ? pos : at.from, await members(program, catalog, parent.firstChild)) : null;
    }
    const object = at.name === 'ObjectExpression' ? at : at.name === 'PropertyDefinition' ? parent?.parent : parent;
    if (object?.name === 'ObjectExpression' && /^(ObjectExpression|PropertyDefinition|\{|,)$/.test(at.name)) {
      const of = await program.argument(object);
      const there = object.getChildren('Property').filter((p) => p.to < pos || p.from > pos).map((p) => program.text(p.firstChild));
      return of && !of.items ? answer(at.name === 'PropertyDefinition' ? at.from : pos, fields(of, ': ').filter((c) => !there.includes(c.label))) : null;
    }
    const word = context.matchBefore(/[\p{ID_Continue}$]+/u);
    if (at.name !== 'VariableName' && !context.explicit || /Definition|Property/.test(at.name)) return null;
    return answer(word?.from ?? pos, [...globals].map(([label, g]) => ({ label, type: 'variable', info: g.about })));
  };
  return [own, localCompletionSource];
}
