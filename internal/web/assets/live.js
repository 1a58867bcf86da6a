// The script of the dashboard keeps a page up to date, shows times in local time, and takes keys. Everything works without it.

import { inputs } from './inputs.js';
import { offer } from './notify.js';
import './palette.js';
import './securitykey.js';
import { follow } from './stream.js';

const policy = window.trustedTypes?.createPolicy('harness', { createHTML: (text) => text });

// localTimes puts the local time beside each time in UTC.
function localTimes(under) {
  for (const t of under.querySelectorAll('time:not([data-local])')) {
    t.dataset.local = '';
    const local = document.createElement('small');
    local.textContent = new Date(t.dateTime).toLocaleString() + ' local';
    t.append(local);
  }
}

// refresh asks for the page again and takes over what has changed. What a person is typing in, has opened or chosen stays.
// A page that does not change is asked for less often, down to every 5 seconds; what a person does there or a change of it begins anew.
let tag = '';
let failures = 0;
const often = 1500, seldom = 5000;
let pause = often;
async function turn() {
  await refresh();
  setTimeout(turn, pause);
}
const parse = (text) => new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, 'text/html');
async function refresh() {
  const main = document.querySelector('main[data-live]');
  if (!main || document.hidden || typing()) return;
  let answer;
  try {
    answer = await fetch(location.href, { headers: tag ? { 'If-None-Match': tag } : {}, cache: 'no-store' });
    failures = 0;
  } catch {
    if (++failures === 2) behind(silent);
    return;
  }
  if (answer.redirected) return location.reload(); // the session has ended
  if (answer.status === 304) {
    pause = Math.min(seldom, pause * 1.2);
    return behind('');
  }
  if (!answer.ok) return behind(silent);
  tag = answer.headers.get('ETag') ?? '';
  pause = often;
  const text = await answer.text();
  const page = parse(text);
  const fresh = page.querySelector('main');
  if (!fresh || typing()) return;
  const focused = document.activeElement, place = focused?.id ? '#' + CSS.escape(focused.id) : where(focused);
  const open = [...main.querySelectorAll('details')].map((d) => d.open);
  const chosen = new Set([...main.querySelectorAll('input:checked')].map((c) => c.value));
  const scrolled = [...main.querySelectorAll('pre, .scroll')].map((e) => [e.scrollLeft, e.scrollTop]);
  const kept = [...main.querySelectorAll('[data-keep]')];
  main.replaceChildren(...fresh.childNodes);
  for (const e of kept) main.querySelector('#' + e.id)?.replaceWith(e);
  if (!fresh.hasAttribute('data-live')) main.removeAttribute('data-live');
  [...main.querySelectorAll('details')].forEach((d, i) => { if (open[i]) d.open = true; });
  for (const c of main.querySelectorAll('input[type=checkbox]')) if (chosen.has(c.value)) c.checked = true;
  [...main.querySelectorAll('pre, .scroll')].forEach((e, i) => { if (scrolled[i]) [e.scrollLeft, e.scrollTop] = scrolled[i]; });
  const waiting = document.querySelector('nav[aria-label=Sections]'), now = page.querySelector('nav[aria-label=Sections]');
  if (waiting && now && !waiting.contains(focused)) waiting.replaceChildren(...now.childNodes);
  localTimes(main);
  offer();
  inputs();
  mark(row);
  if (place && focused && !document.contains(focused)) main.querySelector(place)?.focus({ preventScroll: true });
}

// where is a selector for the element that has the focus: the same link or field of the fresh page.
function where(e) {
  if (!e || e === document.body) return '';
  if (e.getAttribute('href')) return `a[href="${CSS.escape(e.getAttribute('href'))}"]`;
  if (e.value && e.name) return `[name="${CSS.escape(e.name)}"][value="${CSS.escape(e.value)}"]`;
  return '';
}

// typing says whether a person is in the middle of a form or a dialog.
function typing() {
  const e = document.activeElement;
  return !!e && (e.matches('textarea, select, [contenteditable]') || (e.matches('input') && e.type !== 'checkbox')) || !!document.querySelector('textarea[data-changed], dialog[open]');
}

// behind says on the page why it is not up to date; '' that it is.
const silent = 'The server does not answer: what is shown may be old.';
function behind(why) {
  const p = document.querySelector('#behind');
  if (!p || p.textContent === why) return;
  p.textContent = why;
  p.hidden = !why;
}

// Keys: j and k move between the rows of requests, x chooses, Enter opens, a approves, d denies.
let row = -1;
function mark(at) {
  const rows = [...document.querySelectorAll('tr[data-row]')];
  rows.forEach((r) => r.removeAttribute('data-at'));
  if (!rows.length || at < 0) return;
  row = Math.min(at, rows.length - 1);
  rows[row].setAttribute('data-at', '');
  return rows[row];
}
document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || typing()) return;
  const rows = document.querySelectorAll('tr[data-row]');
  const decide = (value) => document.querySelector(`button[name=decision][value=${value}]`);
  if (e.key === 'j' && !rows.length) document.querySelector('a[rel=next]')?.click();
  else if (e.key === 'k' && !rows.length) document.querySelector('a[rel=prev]')?.click();
  else if ((e.key === 'j' || e.key === 'k') && rows.length) {
    const at = mark(Math.max(0, row + (e.key === 'j' ? 1 : -1)));
    at?.querySelector('a')?.focus();
  } else if (e.key === 'x' && rows[row]) rows[row].querySelector('input[type=checkbox]')?.click();
  else if ((e.key === 'a' || e.key === 'd') && decide(e.key === 'a' ? 'approve' : 'deny')) {
    const choosing = document.querySelectorAll('tr[data-row] input[type=checkbox]');
    if (choosing.length && ![...choosing].some((c) => c.checked)) behind('No request is chosen: x chooses the marked one.');
    else decide(e.key === 'a' ? 'approve' : 'deny').click();
  } else return;
  e.preventDefault();
});
document.documentElement.dataset.keys = ''; // keys are taken from here on
document.addEventListener('input', (e) => { if (e.target.matches('textarea')) e.target.dataset.changed = ''; });

// The editor is loaded once a text is shown that wants it.
function editors() {
  if ([...document.querySelectorAll('textarea[data-editor]')].some((t) => t.checkVisibility())) import('./editor.js').then((editor) => editor.mount());
}
document.addEventListener('toggle', editors, true);
editors();

localTimes(document);
inputs();
const live = document.querySelector('main[data-stream]');
if (live && window.EventSource) {
  follow(live, {
    refresh, behind, gaveUp: turn,
    element(html) {
      const row = html.startsWith('<tr'), page = parse(row ? `<table>${html}</table>` : html);
      localTimes(page);
      return document.adoptNode(row ? page.querySelector('tr') : page.body.firstElementChild);
    },
  });
} else setTimeout(turn, pause);
for (const sign of ['visibilitychange', 'keydown', 'pointerdown']) document.addEventListener(sign, () => { pause = often; });
