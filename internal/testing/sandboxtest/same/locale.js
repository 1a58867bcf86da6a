// Formats, orders and last digits, which engines are free to choose.
const error = (f) => { try { return f() } catch (e) { return `${e.name}: ${e.message}` } }
const words = ['ä', 'a', 'z', 'Z', 'A', 'é', 'e', '1', '10', '2']
return {
  money: ['en-US', 'de-DE', 'ja-JP'].map((l) => new Intl.NumberFormat(l, { style: 'currency', currency: 'EUR' }).format(-1234.5)),
  dates: ['en-GB', 'fr-FR', 'pt-BR'].map((l) => new Date(1.7e12).toLocaleString(l, { timeZone: 'Asia/Kathmandu', dateStyle: 'full', timeStyle: 'long' })),
  unknown: error(() => new Intl.NumberFormat('xx-YY').format(1)),
  orders: [undefined, 'sv', 'de'].map((l) => [...words].sort((a, b) => a.localeCompare(b, l)).join('')),
  numeric: [...words].sort(new Intl.Collator('en', { numeric: true }).compare).join(''),
  plain: [...words].sort().join(''),
  digits: [Math.sin(1e22), Math.cos(1e6), Math.tan(1.3), Math.pow(1.1, 100.3), 1.1 ** 55.5, Math.exp(10.5), Math.expm1(1e-5), Math.cbrt(3), Math.sinh(2.2),
    Math.atanh(0.3), Math.log1p(0.7), Math.hypot(1.1, 2.2, 3.3), Math.atan2(1, 3)],
  numbers: [(1e21).toString(), (0.000001234).toString(), (1.005).toFixed(2), (255.5).toString(16), (1.5e-9).toExponential(3), (123.456).toPrecision(4)],
  parsed: ['Jan 2 2026', '2 January 2026 10:00 PST', '2026-13-01', '2026-01-02T03:04:05.678+05:45'].map((s) => Date.parse(s)),
  texts: ['\ufb01'.normalize('NFKD'), 'ẞİ'.toLowerCase(), 'ß'.toUpperCase(), [...'👨‍👩‍👧'].length, /\p{Lu}/u.test('Ä')],
  stable: Array.from({ length: 50 }, (_, i) => [i % 3, i]).sort((a, b) => a[0] - b[0]).map((p) => p[1]).join(),
}
