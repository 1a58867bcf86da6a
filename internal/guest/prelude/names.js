// Names of servers and tools as programs write them: case, "-" and "_" do not matter, and a wrong one is answered with
// the closest.

import { join, list, max, min, push, sort, strIncludes, toLowerCase } from './intrinsics.js';
import { replace } from './text.js';

// fold returns a name without what does not matter: fold('get-sum') is fold('getSum').
export function fold(name) {
  return replace(/[-_A-Z]/g, name, (m) => (m[0] === '-' || m[0] === '_' ? '' : toLowerCase(m[0])));
}

// distance is Levenshtein's: the least number of characters to insert, delete or replace to make b of a.
function distance(a, b) {
  let row = list();
  for (let j = 0; j <= b.length; j++) row[j] = j;
  for (let i = 1; i <= a.length; i++) {
    const next = list();
    next[0] = i;
    for (let j = 1; j <= b.length; j++) {
      next[j] = min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length];
}

// closest returns up to three of names that are most like name, best first, as text: 'a', 'b', 'c'.
export function closest(name, names) {
  const wanted = fold(name);
  const ranked = list();
  for (let i = 0; i < names.length; i++) {
    const candidate = fold(names[i]);
    // A name that contains the other is nearer than its length makes it.
    let score = distance(wanted, candidate) / max(wanted.length, candidate.length, 1);
    if (contains(candidate, wanted) || contains(wanted, candidate)) score /= 2;
    push(ranked, { __proto__: null, name: names[i], score, order: i });
  }
  sort(ranked, (a, b) => a.score - b.score || a.order - b.order);
  const best = list();
  for (let i = 0; i < ranked.length && i < 3; i++) push(best, `'${ranked[i].name}'`);
  return join(best, ', ');
}

function contains(text, part) {
  return part.length > 2 && strIncludes(text, part);
}
