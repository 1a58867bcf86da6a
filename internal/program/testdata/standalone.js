// Evaluates expressions of async functions, a JSON string a line, and calls them with {n: 20}.
const lines = require('fs').readFileSync(0, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
(async () => {
  for (const code of lines) {
    let value;
    try { value = { value: await (0, eval)(code)({ n: 20 }) }; } catch (error) { value = { error: String(error) }; }
    console.log(JSON.stringify(value));
  }
})();
