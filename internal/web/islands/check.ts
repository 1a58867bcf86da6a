// The check of a text while it is written: a pause after the last change it is sent to the address in data-check, and what is wrong is shown in the
// gutter, and below as text. One request is in flight; a later one cancels it.

import { type Diagnostic, setDiagnostics } from '@codemirror/lint';
import type { EditorState, Extension } from '@codemirror/state';
import { EditorView, ViewPlugin, type ViewUpdate } from '@codemirror/view';

// Problem is what the server says of a text. line counts from 1, and column in UTF-16 units from 1; 0: no place.
export interface Problem { line: number; column: number; message: string; severity: 'error' | 'warning' }

const pause = 400; // milliseconds

function diagnostic(state: EditorState, p: Problem): Diagnostic {
  const line = state.doc.line(Math.min(p.line, state.doc.lines));
  const from = Math.min(line.to, line.from + Math.max(0, p.column - 1));
  return { from, to: p.column > 0 ? state.wordAt(from)?.to ?? from : line.to, severity: p.severity, message: p.message };
}

function show(view: EditorView, below: HTMLElement, problems: Problem[]): void {
  view.dispatch(setDiagnostics(view.state, problems.filter((p) => p.line > 0).map((p) => diagnostic(view.state, p))));
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
      if (!textarea.form || !textarea.value.trim()) return show(this.view, below, []);
      const { signal } = this.request = new AbortController();
      try {
        const answer = await fetch(url!, { method: 'POST', body: new URLSearchParams(new FormData(textarea.form) as never), signal });
        if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
        const { problems } = await answer.json();
        if (!signal.aborted) show(this.view, below, problems);
      } catch {
        if (!signal.aborted) show(this.view, below, [{ line: 0, column: 0, message: 'This is not checked now.', severity: 'warning' }]);
      }
    }

    destroy(): void { this.cancel(); }
  });
}
