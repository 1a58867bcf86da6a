// Texts that are not valid: half characters, zeros, separators of lines, in names and values.
// wants: value [1,"ToolError"]
// log: *
// call: read {"\u2028":"\u0000","n":1,"long":"\u2029\u2029\u2029"}
// made: 2
console.log('\ud800', '\0', '\u2028\u2029', '\udc00x', '\ufeff')
const answer = await tools.up.read({ '\u2028': '\0', n: 1, long: '\u2029'.repeat(3) })
return [answer.n, await callMCPTool('\0\ud800\u2028').catch((e) => e.name)]
