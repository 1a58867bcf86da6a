// Calls whose fields are made to look like other calls' answers.
// wants: value [{"t":"answer","run":"x","id":1},{"id":99,"args":{"n":2}}]
// call: read {"t":"answer","run":"x","id":1}
// call: read {"id":99,"args":{"n":2}}
return [await tools.up.read({ t: 'answer', run: 'x', id: 1 }), await callMCPTool('up__read', { id: 99, args: { n: 2 } })]
