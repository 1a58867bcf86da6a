// The check of a text while it is written: a pause after the last change it is sent to the address in data-check, and what is wrong is shown in the
// gutter, and below as text. One request is in flight; a later one cancels it.

import { type Diagnostic, setDiagnostics } from '@codemirror/lint';
import type { EditorState, Extension } from '@codemirror/state';
import { EditorView, ViewPlugin, type ViewUpdate } from '@codemirror/view';

// Problem is what the server says of a text. line counts from 1, and column in UTF-16 units from 1; 0: no place.
export interface Problem { line: number; column: number; message: string; severity: 'error' | 'warning' }

const pause = 400; // milliseconds

function diagnostic(state: EditorState, p: Problem): Diagnostic {
  const line = state.doc.line(Math.min(Math.max(1, p.line), state.doc.lines));
  const from = Math.min(line.to, line.from + Math.max(0, p.column - 1));
  const word = state.wordAt(from);
  return { from, to: p.column > 0 ? word?.to ?? from : line.to, severity: p.severity, message: p.message };
}

function show(view: EditorView, below: HTMLElement, problems: Problem[]): void {
  view.dispatch(setDiagnostics(view.state, problems.map((p) => diagnostic(view.state, p))));
  below.replaceChildren(...problems.map((p) => {
    const text = document.createElement('p');
    text.textContent = p.line > 0 ? `Line ${p.line}: ${p.message}` : p.message;
    return text;
  }));
}

// mark shows where the program failed that is edited again, until it is changed.
export function mark(view: EditorView, textarea: HTMLTextAreaElement, below: HTMLElement): void {
  const { line, message } = textarea.dataset;
  if (line) show(view, below, [{ line: Number(line), column: 0, message: message ?? '', severity: 'error' }]);
}

export function check(textarea: HTMLTextAreaElement, below: HTMLElement): Extension {
  const url = textarea.dataset.check;
  if (!url) return [];
  return ViewPlugin.fromClass(class {
    timer = 0;
    request = new AbortController();
    constructor(readonly view: EditorView) {}

    update(u: ViewUpdate): void {
      if (!u.docChanged) return;
      this.cancel();
      this.timer = window.setTimeout(() => void this.ask(), pause);
    }

    cancel(): void {
      clearTimeout(this.timer);
      this.request.abort();
    }

    async ask(): Promise<void> {
      const form = textarea.form;
      if (!form || !textarea.value.trim()) return show(this.view, below, []);
      const { signal } = this.request = new AbortController();
      try {
        const answer = await fetch(url!, { method: 'POST', body: new URLSearchParams(new FormData(form) as never), signal });
        const problems: Problem[] = answer.ok && !answer.redirected ? (await answer.json()).problems : [];
        if (signal.aborted) return;
        show(this.view, below, problems);
        if (!answer.ok || answer.redirected) below.textContent = 'The program is not checked now.';
      } catch {
        if (!signal.aborted) below.textContent = 'The program is not checked now.';
      }
    }

    destroy(): void { this.cancel(); }
  });
}
