// Runs the script of the documents' page with as much of a browser as it needs, and prints what it shows.
'use strict';

const fs = require('fs');

class Element {
  constructor(name) { this.name = name; this.children = []; this.textContent = ''; }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  text() { return this.textContent + ' ' + this.children.map((c) => (c instanceof Element ? c.text() : c)).join(' '); }
}

const main = new Element('main');
globalThis.document = { createElement: (name) => new Element(name), getElementById: () => main };
globalThis.fetch = async () => ({ json: async () => JSON.parse(fs.readFileSync(process.argv[2], 'utf8')) });
process.once('beforeExit', () => console.log(main.text())); // at exit a part of it may be left unwritten
(0, eval)(process.env.SCRIPT);
