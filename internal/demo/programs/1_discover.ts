const names = await list_mcp_tools();
const found = await search_mcp_tools(
  "query sales data, look up a customer, send an e-mail", { limit: 5 });

return {
  tools: names.length,
  servers: [...new Set(names.map((name) => name.split("__")[0]))],
  best: found.map((tool) => tool.name),
};
