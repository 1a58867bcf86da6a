// What programs use of the language.
const text = 'Stra\u00dfe na\u00efve \u{1f600} abc'
return [
  text.toUpperCase(), text.normalize('NFD').length, [...text].length, 'b,a'.split(',').sort(), /(?<y>\d{4})-(?<m>\d\d)/.exec('on 2024-05-01').groups.y, [3, 1, 2].toSorted?.() ?? [1, 2, 3],
  0.1 + 0.2, (1234.5678).toFixed(2), parseInt('0x1f'), new Date('2024-02-30T00:00:00Z').getTime(), new Date(Date.UTC(2024, 1, 29)).toISOString(),
  Math.max(...[1, 5, 3]), JSON.stringify({ b: 1, a: [undefined] }), structuredClone({ d: new Date(5) }).d.getTime(), btoa('h\u00e9'), encodeURIComponent('\u00e9 &'), 2n ** 64n, [1, [2, [3]]].flat(Infinity), new URL('../x?q=1#h', 'https://a.b/c/d').href,
]
