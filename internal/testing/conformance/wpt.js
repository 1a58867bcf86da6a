// What the harness of web-platform-tests expects around it, in Node.js and in the guest.
globalThis.self = globalThis;
globalThis.location = { search: '', href: 'https://web-platform.test/', pathname: '/', origin: 'https://web-platform.test', protocol: 'https:' };
globalThis.GLOBAL = { isWindow: () => false, isWorker: () => false, isShadowRealm: () => false };
globalThis.readTestFile ??= (name) => fs.readFile(`/workspace/${name}`, 'utf8');
globalThis.fetch = async (name) => {
  const text = await readTestFile(encodeURIComponent(name));
  return { ok: true, status: 200, text: async () => text, json: async () => JSON.parse(text) };
};

// begin tells the harness to wait for done, and prints what it found then.
function begin() {
  const hold = setInterval(() => {}, 1000); // timers of signals keep no program alive
  setup({ explicit_done: true });
  add_completion_callback((tests, status) => {
    clearInterval(hold);
    const found = tests.map((t) => ({ name: t.name, message: String(t.message), status: t.status }));
    print(`Test262:Async${JSON.stringify({ status: status.status, message: String(status.message), tests: found })}`);
  });
}
