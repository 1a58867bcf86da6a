// The editor: it stands in for a textarea within a label, and keeps its text there for the form. Without it the textarea works. Attributes of the textarea say
// what it does: data-editor is the language, data-check the address that says what is wrong (see check.ts), data-line and data-message what was wrong before,
// data-tools the address of what there is to complete in programs (see complete.ts).

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { lintGutter, lintKeymap } from '@codemirror/lint';
import { EditorState, type Extension, Prec } from '@codemirror/state';
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';

import { check, mark } from './check';
import { complete } from './complete';

// The colours are the page's, so that light and dark follow it.
const theme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--page)', border: '1px solid var(--soft)', borderRadius: '4px', fontSize: '.9rem' },
  '&.cm-focused': { outline: '3px solid var(--link)', outlineOffset: '2px' },
  '.cm-scroller': { fontFamily: 'ui-monospace, monospace', lineHeight: '1.45', minHeight: '12em', maxHeight: '70vh', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-gutters': { color: 'var(--soft)', backgroundColor: 'var(--side)', borderRight: '1px solid var(--line)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'transparent', outline: '1px solid var(--link)' },
  '&.cm-focused .cm-nonmatchingBracket': { backgroundColor: 'transparent', outline: '1px solid var(--bad)' },
  '.cm-specialChar': { color: 'var(--bad)' },
  '.cm-tooltip': { color: 'var(--text)', backgroundColor: 'var(--page)', border: '1px solid var(--soft)', maxWidth: 'min(30rem, 90vw)', overflowWrap: 'anywhere' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { color: 'var(--on)', backgroundColor: 'var(--link)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { maxWidth: '90vw', maxHeight: '14em' },
  '.cm-completionDetail': { fontStyle: 'normal' },
  '.cm-completionInfo': { whiteSpace: 'pre-wrap' },
  // Those of the package are images in the sheet, which the policy of the page refuses.
  '.cm-lint-marker': { content: 'normal', fontWeight: '700', textAlign: 'center', height: 'auto' },
  '.cm-lint-marker-error, .cm-diagnostic-error': { color: 'var(--bad)' },
  '.cm-lint-marker-warning, .cm-diagnostic-warning': { color: 'var(--wait)' },
  '.cm-lint-marker-error::before': { content: '"✕"' },
  '.cm-lint-marker-warning::before': { content: '"▲"' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)' },
  '.cm-lintRange-warning': { backgroundImage: 'none', textDecoration: 'underline wavy var(--wait)' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--bad)' },
  '.cm-diagnostic-warning': { borderLeftColor: 'var(--wait)' },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword, tags.moduleKeyword], color: 'var(--link)' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--ok)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--wait)' },
  { tag: tags.comment, color: 'var(--soft)', fontStyle: 'italic' },
  { tag: tags.invalid, color: 'var(--bad)' },
]);

// languages are the values of data-editor.
const languages: Record<string, () => Extension> = {
  javascript: () => javascript({ typescript: true }),
  yaml,
};

// leave makes Tab leave the editor behind Escape, until something is typed or the editor gets the focus again.
const leave: Extension = [
  Prec.highest(keymap.of([{ key: 'Escape', run: (view) => (view.setTabFocusMode(true), false) }])), // which also closes a list of completions
  keymap.of([indentWithTab]),
  EditorView.updateListener.of((u) => { if (u.docChanged) u.view.setTabFocusMode(false); }),
  EditorView.domEventHandlers({ focus: (_, view) => view.setTabFocusMode(false) }),
];

// overwrite takes what is typed over a selection: the browser would keep the style of what it removes in an attribute, which the policy of the page refuses.
const overwrite = EditorView.domEventHandlers({
  beforeinput(e, view) {
    const { main } = view.state.selection, text = e.data;
    if (e.inputType !== 'insertText' || !text || main.empty || view.composing) return false;
    const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: 'input.type' });
    if (!view.state.facet(EditorView.inputHandler).some((take) => take(view, main.from, main.to, text, insert))) view.dispatch(insert());
    return true;
  },
});

function made(name: string, id: string, className: string, text = ''): HTMLElement {
  const e = document.createElement(name);
  e.id = id;
  e.className = className;
  e.textContent = text;
  return e;
}

function edit(textarea: HTMLTextAreaElement): void {
  const language = languages[textarea.dataset.editor ?? ''];
  const label = textarea.closest('label');
  if (!language || !label || textarea.hidden) return;
  const form = textarea.form, button = form?.querySelector<HTMLButtonElement>('button.primary');
  const keys = [button && `Ctrl-Enter: ${button.textContent}`, textarea.dataset.tools && 'Ctrl-Space: complete', textarea.dataset.check && 'F8: next problem', 'Escape, then Tab: leave the editor'];
  const help = made('p', textarea.name + '-help', 'meta', keys.filter(Boolean).join('. ') + '.');
  const problems = made('div', textarea.name + '-problems', 'problems');
  problems.setAttribute('role', 'status');
  const submit = (): boolean => {
    form?.requestSubmit(button);
    return true;
  };
  const view = new EditorView({
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        keymap.of([{ key: 'Ctrl-Enter', mac: 'Cmd-Enter', run: submit }]),
        lineNumbers(), lintGutter(), history(), bracketMatching(), closeBrackets(), indentOnInput(), highlightSpecialChars({ addSpecialChars: /[\u202a-\u202c\u2060-\u2064\u2068]/g }), EditorView.lineWrapping,
        language(), indentUnit.of('  '), syntaxHighlighting(colours), theme,
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...lintKeymap.filter((k) => k.key === 'F8'), ...historyKeymap]), leave, overwrite, keymap.of(defaultKeymap),
        EditorView.contentAttributes.of({ 'aria-label': label.firstChild?.textContent?.trim() ?? 'Text', 'aria-describedby': `${help.id} ${problems.id}` }),
        EditorView.updateListener.of((u) => {
          if (!u.docChanged) return;
          textarea.value = u.state.doc.toString();
          textarea.dataset.changed = ''; // live.js keeps the page as it is
        }),
        check(textarea, problems),
        textarea.dataset.tools ? autocompletion({ override: complete(textarea.dataset.tools), icons: false }) : [],
      ],
    }),
  });
  textarea.hidden = true;
  textarea.required = false; // a browser cannot ask for a field that it does not show; the server does
  label.after(view.dom, problems, help);
  label.addEventListener('click', () => view.focus());
  mark(view, textarea, problems);
}

// mount puts the editor in place of every textarea that asks for one.
export function mount(): void {
  document.querySelectorAll<HTMLTextAreaElement>('textarea[data-editor]').forEach(edit);
}
