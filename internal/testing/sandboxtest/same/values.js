// Values of every kind.
return { a: [1, -0, 1e21, NaN, null, undefined], date: new Date(0), map: new Map([['k', 1]]), set: new Set([1]), big: 12n, bytes: new Uint8Array([1, 2]), text: '\u00e9\u{1f600}\u2028', nested: { deep: [{}] } }
