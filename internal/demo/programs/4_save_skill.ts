await fs.writeFile("/skills/sales_summary.js", `
// Skill: sales_summary
// Purpose: orders, total, and totals by region and month of rows of sales
// Usage: const summary = require("/skills/sales_summary.js")(rows);
module.exports = function summarizeSales(rows) {
  const byRegion = {}, byMonth = {};
  let total = 0;
  for (const { date, region, amount } of rows) {
    const month = date.slice(0, 7);
    total += amount;
    byRegion[region] = (byRegion[region] || 0) + amount;
    byMonth[month] = (byMonth[month] || 0) + amount;
  }
  return { orders: rows.length, total, byRegion, byMonth };
};
`);

// A skill is tried before anything relies on it.
const summarizeSales = require("/skills/sales_summary.js");
const tried = summarizeSales([
  { date: "2024-01-31", region: "West", amount: 1.5 },
  { date: "2024-02-01", region: "West", amount: 2.25 },
]);
if (tried.total !== 3.75 || tried.byMonth["2024-02"] !== 2.25) {
  throw new Error("the skill is wrong: " + JSON.stringify(tried));
}
return { saved: "/skills/sales_summary.js", tried };
