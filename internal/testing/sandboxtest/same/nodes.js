// What Node.js has and engines lack or do otherwise: buffers that move, errors of promises, stacks, locales, and files as bytes.
const name = async (f) => { try { return await f() } catch (e) { return `${e.name}: ${e.message}` } }
const buffer = new ArrayBuffer(8)
const moved = structuredClone({ buffer }, { transfer: [buffer] })
const error = new Error('x')
error.stack = undefined
await fs.writeFile('/workspace/a.txt', 'h\u00e9')
const text = await fs.readFile('/workspace/a.txt')
const bytes = await fs.promises.readFile('/workspace/a.txt')
return {
  moved: [buffer.byteLength, moved.buffer.byteLength], any: await name(() => Promise.any([Promise.reject(1)])), stack: typeof error.stack,
  base64: [text.toString('base64'), bytes.toString('base64'), await require('fs/promises').readFile('/workspace/a.txt', 'latin1')],
  atob: await name(() => atob('%')), inspect: require('util').inspect(new DOMException('m', 'AbortError')).split('\n')[0],
  case: ['I'.toLocaleLowerCase('tr'), 'i'.toLocaleUpperCase('az'), '\u03ac\u03c5\u03bb\u03bf\u03c2'.toLocaleUpperCase('el')],
  locales: ['default', 'xx-YY', 'de-XX'].map((l) => (1234.5).toLocaleString(l)), thai: await name(() => (5).toLocaleString('th').slice(0, 9)),
  names: new Intl.DisplayNames('en', { type: 'region' }).of('CI'), likely: `${new Intl.Locale('zh-TW').maximize()}`,
}
