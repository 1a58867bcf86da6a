import * as mailer from "./servers/mailer";

const [best] = JSON.parse(await fs.readFile("/workspace/top.json"));
await mailer.send({
  to: best.email,
  subject: "Thank you",
  body: `Dear ${best.name},

you were our best customer of 2024. Thank you!
${best.owner} will call you at ${best.phone}.
`,
});
return `mailed ${best.email}`;
