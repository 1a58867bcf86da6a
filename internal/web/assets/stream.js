// A page of something that goes on follows its events. A hidden tab follows nothing: it goes on behind the last event that it has once it is shown.

// mostRows is how many calls a live page shows: the newest.
const mostRows = 1000;

// follow keeps a page up to date by a stream of parts. Its functions put html, ask for the page again, and say that it is behind.
export function follow(main, { element, refresh, behind, gaveUp }) {
  let source, scaled, last = '', failures = 0;
  const close = () => { source?.close(); source = undefined; };

  function open() {
    if (source || document.hidden) return;
    source = new EventSource(main.dataset.stream + (last ? '?after=' + encodeURIComponent(last) : ''));
    source.onopen = () => { failures = 0; behind(''); };
    source.onmessage = (e) => {
      if (e.lastEventId) last = e.lastEventId;
      take(JSON.parse(e.data));
    };
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) { // refused, or all has been sent: the page is asked for as others are
        close();
        gaveUp();
      } else if (++failures === 2) behind('The server does not answer: what is shown may be old.');
    };
  }

  function take(part) {
    if (part.behind) return behind('More happens than this page shows in time: it is catching up.');
    if (part.status) {
      if (!/ended|succeeded|failed|cancelled/.test(part.status)) return refresh();
      close();
      return gaveUp();
    }
    const list = part.to && document.getElementById(part.to);
    if (!list) return;
    behind('');
    if (part.to === 'pieces') {
      list.textContent = part.reset ? '' : list.textContent + (part.text ?? '');
      list.hidden = !list.textContent;
      return;
    }
    if (part.n && list.children.length >= part.n) return;
    const fresh = element(part.html), old = part.id && document.getElementById(part.id);
    const down = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    if (old) old.replaceWith(fresh);
    else list.append(fresh);
    if (down) list.scrollTop = list.scrollHeight;
    if (part.to === 'calls') {
      if (list.rows.length > mostRows) list.rows[0].remove();
      scaled ??= requestAnimationFrame(() => { scaled = undefined; scale(list); });
    }
    if (part.to === 'steps') document.getElementById('pieces')?.replaceChildren();
  }

  document.addEventListener('visibilitychange', () => document.hidden ? close() : open());
  addEventListener('pagehide', close);
  open();
}

// scale draws the bars of calls on the time from the first one to the newest.
function scale(list) {
  const rows = [...list.rows], began = (r) => Number(r.dataset.began), ended = (r) => Number(r.dataset.answered ?? r.dataset.began);
  const begin = Math.min(...rows.map(began)), span = Math.max(1, ...rows.map((r) => ended(r) - begin));
  for (const r of rows) {
    const bar = r.querySelector('rect');
    bar.setAttribute('x', Math.min(996, 1000 * (began(r) - begin) / span));
    bar.setAttribute('width', Math.max(4, 1000 * (ended(r) - began(r)) / span));
  }
}
