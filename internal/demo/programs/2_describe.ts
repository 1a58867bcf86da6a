const sales = await callMCPTool("database__describe_table", {
  table: "sales",
});
const needed = [
  "database__query", "crm__get", "crm__list_team", "mailer__send",
];
const details = await Promise.all(
  needed.map((name) => get_mcp_tool_details(name)));

return {
  columns: sales.columns.map((column) => `${column.name} ${column.type}`),
  declarations: details.map((tool) => tool.typescript),
};
