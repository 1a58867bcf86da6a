const found = await search_mcp_tools(
  "query sales data, look up a customer, send an e-mail", { limit: 4 });
for (const { name } of found) {
  console.log((await get_mcp_tool_details(name)).typescript);
}
return found.map((tool) => tool.name);
