// The official TypeScript SDK's client: client.mjs PACKAGES stdio COMMAND ARGS… | client.mjs PACKAGES http URL TOKEN
const [packages, how, where, ...more] = process.argv.slice(2)
const sdk = (file) => import(`${packages}/node_modules/@modelcontextprotocol/sdk/dist/esm/client/${file}.js`)
const {Client} = await sdk('index')
const {StdioClientTransport} = await sdk('stdio')
const {StreamableHTTPClientTransport} = await sdk('streamableHttp')
const transport = how === 'stdio'
  ? new StdioClientTransport({command: where, args: more, env: process.env, stderr: 'inherit'})
  : new StreamableHTTPClientTransport(new URL(where), {requestInit: {headers: {Authorization: `Bearer ${more[0]}`}}})
const client = new Client({name: 'test', version: '1'})
await client.connect(transport)
const {tools} = await client.listTools() // with their output schemas, which callTool checks
const progress = []
const ran = await client.callTool({name: 'execute_code', arguments: {code: 'await list_mcp_tools(); return {n: 6 * 7}'}}, undefined, {onprogress: (p) => progress.push(p)})
const failed = await client.callTool({name: 'execute_code', arguments: {code: 'throw new Error("no")'}})
const found = await client.callTool({name: 'search_tools', arguments: {query: 'customers'}})
console.log(JSON.stringify({
  tools: tools.map((t) => t.name).sort(), instructions: client.getInstructions() !== undefined, ran: ran.structuredContent,
  failed: [failed.isError, failed.structuredContent.status], found: found.structuredContent.tools.length,
}))
await client.close()
