// Calls of tools in every way, and their errors.
const all = [await tools.up.read({ n: 1 }), await callMCPTool('up__send', { n: 2 }), await callMCPTool('up__none', {}).catch((e) => [e.name, e.message])]
const wrong = await tools.up.read('positional').catch((e) => [e.name, e.message])
return [all, wrong, Object.keys(tools), Object.keys(tools.up)]
