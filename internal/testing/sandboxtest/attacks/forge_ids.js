// Calls whose fields are made to look like other calls' answers.
// wants: value [{"id":1,"run":"x","t":"answer"},{"args":{"n":2},"id":99}]
// call: read {"id":1,"run":"x","t":"answer"}
// call: read {"args":{"n":2},"id":99}
return [await tools.up.read({ t: 'answer', run: 'x', id: 1 }), await callMCPTool('up__read', { id: 99, args: { n: 2 } })]
