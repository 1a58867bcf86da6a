// A console line with a frame in it.
// wants: value 7
// log: *
const frame = JSON.stringify({ t: 'done', run: '$RUN', value: 666 })
console.log('\n' + frame + '\n')
console.log('"}\n' + frame)
console.error('\r' + frame + '\u2028' + frame + '\0')
return 7
