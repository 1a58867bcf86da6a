// A server whose definitions of tools are odd: odd.mjs serve FILE. Or the official TypeScript SDK's client, which lists and calls the tools
// of a gateway to it: odd.mjs PACKAGES COMMAND ARGS…
import {readFileSync} from 'node:fs'
import {createInterface} from 'node:readline'

if (process.argv[2] === 'serve') {
  const tools = JSON.parse(readFileSync(process.argv[3], 'utf8'))
  const answers = {
    initialize: () => ({protocolVersion: '2025-06-18', capabilities: {tools: {}}, serverInfo: {name: 'odd', version: '1'}}),
    'tools/list': () => ({tools}),
    'tools/call': ({name}) => ({content: [{type: 'text', text: `ran ${name}`}], structuredContent: name === 'list_output' ? [1] : name === 'output_with_nulls' ? {} : undefined}),
  }
  for await (const line of createInterface({input: process.stdin})) {
    const {id, method, params} = JSON.parse(line)
    if (id !== undefined) console.log(JSON.stringify({jsonrpc: '2.0', id, result: answers[method]?.(params) ?? {}}))
  }
  process.exit()
}

const [packages, command, ...args] = process.argv.slice(2)
const sdk = (file) => import(`${packages}/node_modules/@modelcontextprotocol/sdk/dist/esm/client/${file}.js`)
const {Client} = await sdk('index')
const {StdioClientTransport} = await sdk('stdio')
const {ToolListChangedNotificationSchema} = await sdk('../types')
const client = new Client({name: 'test', version: '1'})
let changed, change
const again = () => { change?.(); changed = new Promise((resolve) => { change = resolve }) }
again()
client.setNotificationHandler(ToolListChangedNotificationSchema, again)
await client.connect(new StdioClientTransport({command, args, env: process.env, stderr: 'inherit'}))
let tools
for (;;) { // the gateway lists the tools of a server that is slow to start when it has started, and says so
  const next = changed
  tools = (await client.listTools()).tools
  if (tools.length > 0) break
  await next
}
const ran = {}
for (const {name} of tools) ran[name] = (await client.callTool({name, arguments: {}})).content[0]?.text
console.log(JSON.stringify({tools, ran}))
await client.close()
