// Files of the host as resources of a server.
// wants: value 0
let got = 0
for (const uri of ['file://$FILE', 'file:///etc/passwd', '$FILE', 'http://127.0.0.1:$PORT/', '../../etc/passwd']) {
  for (const server of ['up', '', '../up', 'none']) {
    await read_mcp_resource(server, uri).then(() => got++, () => {})
    await read_mcp_resource({ server, uri }).then(() => got++, () => {})
  }
}
return got
