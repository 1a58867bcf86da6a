package guest_test

import "testing"

// TestErrorsOfLibraries fills the stack so that libraries fail at each depth of their calls. The errors that programs catch belong to the programs' realm,
// and their constructors reach no other realm.
func TestErrorsOfLibraries(t *testing.T) {
	const code = `
const { createHash } = require('crypto');
const { parse } = require('url');
const acts = [
  () => new URL('http://\u00e9.com/a/../b?x#y'), () => createHash('sha512').update('x').digest('hex'), () => parse('http://a/b'),
  () => new Intl.PluralRules('pl').select(5), () => new URLSearchParams('a=%zz&b=1').toString(),
];
for (const act of acts) act();
let deepest = 0;
const dive = (depth) => { deepest = depth; dive(depth + 1); };
try { dive(0); } catch {}
const below = (depth, act) => { if (depth <= 0) act(); else below(depth - 1, act); };
const found = { caught: 0, foreign: 0 };
for (const act of acts) {
  for (let room = 1; room < 340; room += 11) {
    try {
      below(deepest - room, act);
    } catch (error) {
      found.caught++;
      if (![RangeError.prototype, Error.prototype, TypeError.prototype].includes(Object.getPrototypeOf(error))) found.foreign++;
    }
  }
}
return found;`
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		var found struct{ Caught, Foreign int }
		webValue(t, open(t), code, &found)
		if found.Caught == 0 || found.Foreign > 0 {
			t.Errorf("%+v", found)
		}
	})
}
