// The keyboard help and the palette, which goes to a section of the dashboard or to a run, task or approval by its id. Both are dialogs: the browser keeps
// the focus inside, closes them with Escape, and puts the focus back.

const keys = [
  ['?', 'show these keys'],
  ['/ or Ctrl-K', 'go to a section, or to a run, task or approval by its id'],
  ['j, k', 'next and previous: row of requests, call, page of a list'],
  ['x, Enter', 'choose and open a request'],
  ['a, d', 'approve and deny'],
  ['Escape', 'close this'],
];
const places = [['run_', '/runs/', 'Run'], ['task_', '/tasks/', 'Task'], ['apr_', '/approvals/', 'Approval']];

function make(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// show opens a dialog, and removes it once it is closed.
function show(label, ...children) {
  const dialog = make('dialog', { 'aria-label': label }, ...children);
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('click', (e) => { if (e.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

function help() {
  const list = make('dl', { class: 'keys' });
  for (const [key, what] of keys) list.append(make('dt', {}, make('kbd', {}, key)), make('dd', {}, what));
  const close = make('button', { type: 'button' }, 'Close');
  close.addEventListener('click', () => close.closest('dialog').close());
  show('Keys', make('h2', {}, 'Keys'), list, close);
}

// found are the places for a text: the sections that have it in their name, and what has it as its id.
function found(text) {
  const all = [];
  for (const [prefix, path, name] of places) if (text.startsWith(prefix)) all.push([`${name} ${text}`, path + encodeURIComponent(text)]);
  for (const a of document.querySelectorAll('nav[aria-label=Sections] a')) {
    const name = a.firstChild.textContent.trim();
    if (name.toLowerCase().includes(text.toLowerCase())) all.push([name, a.pathname]);
  }
  return all;
}

function palette() {
  const list = make('ul', { role: 'listbox', id: 'places', 'aria-label': 'Places' });
  const input = make('input', {
    role: 'combobox', 'aria-label': 'Go to', 'aria-controls': 'places', 'aria-expanded': 'true', 'aria-autocomplete': 'list', autocomplete: 'off', spellcheck: 'false',
    placeholder: 'Section, or id of a run, task or approval',
  });
  let all = [], at = 0;
  const choose = (i) => {
    at = all.length ? (i + all.length) % all.length : 0;
    [...list.children].forEach((o, n) => o.setAttribute('aria-selected', String(n === at)));
    if (all.length) input.setAttribute('aria-activedescendant', 'place' + at);
    else input.removeAttribute('aria-activedescendant');
    list.children[at]?.scrollIntoView({ block: 'nearest' });
  };
  const go = () => { if (all[at]) location.assign(all[at][1]); };
  const fill = () => {
    all = found(input.value.trim());
    list.replaceChildren(...all.map(([name], i) => {
      const option = make('li', { role: 'option', id: 'place' + i, 'aria-selected': 'false' }, name);
      option.addEventListener('click', () => { choose(i); go(); });
      return option;
    }));
    list.hidden = !all.length;
    input.setAttribute('aria-expanded', String(all.length > 0));
    none.textContent = all.length ? '' : 'No section has this name, and it is no id.';
    choose(0);
  };
  const none = make('p', { class: 'empty', role: 'status' });
  input.addEventListener('input', fill);
  input.addEventListener('keydown', (e) => {
    if (e.key === 'ArrowDown') choose(at + 1);
    else if (e.key === 'ArrowUp') choose(at - 1);
    else if (e.key === 'Enter') go();
    else return;
    e.preventDefault();
  });
  show('Go to', input, list, none);
  fill();
  input.focus();
}

document.addEventListener('keydown', (e) => {
  const anywhere = e.key.toLowerCase() === 'k' && (e.ctrlKey || e.metaKey) && !e.altKey;
  const plain = !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.closest?.('input, textarea, select, [contenteditable]');
  if (document.querySelector('dialog[open]') || !document.querySelector('nav[aria-label=Sections]') || !anywhere && !plain) return;
  if (anywhere || e.key === '/') palette();
  else if (e.key === '?') help();
  else return;
  e.preventDefault();
});
