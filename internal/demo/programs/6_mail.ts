import * as crm from "./servers/crm";
import * as mailer from "./servers/mailer";

interface Customer { company: string; region: string; amount: number }
interface Report {
  orders: number; total: number; before: number; growthPercent: number;
  byRegion: Record<string, number>; top: Customer[];
}
const text = await fs.readFile("/workspace/report.json");
const report: Report = JSON.parse(text);
const { members: [lead] } = await crm.listTeam({ role: "sales lead" });

const dollars = (n: number) => "$" + Math.round(n).toLocaleString("en-US");
const body = `Dear ${lead.name},

from January to June 2025 we took ${report.orders} orders worth
${dollars(report.total)}. In the same months of 2024 it was
${dollars(report.before)}: a change of ${report.growthPercent} %.

By region:
${Object.entries(report.byRegion)
  .map(([region, amount]) => `  ${region}: ${dollars(amount)}`)
  .join("\n")}

Best customers of 2024:
${report.top
  .map((c) => `  ${c.company}, ${c.region}: ${dollars(c.amount)}`)
  .join("\n")}
`;

const sent = await mailer.send({
  to: lead.email, subject: "Sales in the first half of 2025", body,
});
return { to: lead.name, file: sent.file };
