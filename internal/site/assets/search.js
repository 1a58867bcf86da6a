// The search of the documents: an index of sections, made with the pages, is read at the first use.
'use strict';

const ordinary = new Set(('a an and are as at be by can do does for from has have how i in is it its me my no not of on one or so than that the their there they this to was what when where which ' +
  'who why will with would you your now under come into').split(' '));

// stem cuts the endings of English words off, so that "keys" finds "key", and "approved" finds "approve".
const stem = (word) => {
  for (const end of ['ing', 'ed', 'es', 's', 'e']) {
    if (word.endsWith(end) && word.length - end.length > 2) return word.slice(0, -end.length);
  }
  return word;
};

const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

// prepare makes sets of stems of the index, and counts in how many sections each stem is.
const prepare = (sections) => {
  const many = new Map();
  const all = sections.map((s) => {
    const body = new Set(words(s.words).map(stem));
    const title = new Set(words(s.title).map(stem));
    const page = new Set(words(s.page).map(stem));
    for (const w of new Set([...body, ...title, ...page])) many.set(w, (many.get(w) ?? 0) + 1);
    return { ...s, words: { body, title, page } };
  });
  return { all, many };
};

// find returns the sections that fit a query, the best first. A word counts by how rare it is, and more in a heading; a section counts less the longer it is, and
// a change of the past less than what is.
const find = ({ all, many }, query) => {
  const wanted = [...new Set(words(query).filter((w) => !ordinary.has(w)).map(stem))];
  const found = [];
  for (const s of all) {
    const { body, title, page } = s.words;
    let score = 0;
    let hits = 0;
    for (const w of wanted) {
      const rare = Math.log(1 + all.length / (many.get(w) ?? 1));
      const weight = title.has(w) ? 3 : body.has(w) ? 1 : page.has(w) ? 0.5 : w.length > 3 && [...title].some((t) => t.startsWith(w)) ? 1 : 0;
      score += rare * weight + (weight && page.has(w) ? rare * 0.5 : 0);
      hits += weight > 0;
    }
    if (hits) found.push({ section: s, score: score * (hits / wanted.length) / Math.log(20 + body.size) / (s.url.startsWith('CHANGELOG') ? 3 : 1) });
  }
  return found.sort((a, b) => b.score - a.score).slice(0, 20).map((f) => f.section);
};

if (typeof document === 'undefined') {
  module.exports = { prepare, find };
} else {
  const form = document.getElementById('search');
  const list = document.getElementById('found');
  let index;
  const show = async () => {
    index ??= fetch('search.json').then((r) => r.json()).then(prepare);
    const query = form.elements.q.value.trim();
    const found = query ? find(await index, query) : [];
    if (query !== form.elements.q.value.trim()) return; // typed on meanwhile
    const ul = document.createElement('ul');
    for (const s of found) {
      const a = document.createElement('a');
      a.href = s.url;
      a.textContent = s.title;
      const li = document.createElement('li');
      li.append(a, s.page === s.title ? '' : ` · ${s.page}`);
      ul.append(li);
    }
    list.replaceChildren(...(query ? [found.length ? ul : 'No section has these words.'] : []));
  };
  form.hidden = false;
  form.addEventListener('input', show);
  form.addEventListener('submit', (e) => {
    e.preventDefault();
    list.querySelector('a')?.click();
  });
}
