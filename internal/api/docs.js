// Renders the OpenAPI document: every operation with its parameters, body and answers.
'use strict';

const element = (name, attributes, ...children) => {
  const e = document.createElement(name);
  Object.assign(e, attributes);
  e.append(...children);
  return e;
};

// shape writes a schema as it would look as a value.
const shape = (schema, schemas, indent = '', seen = []) => {
  if (!schema) return 'null';
  if (schema.$ref) {
    const name = schema.$ref.split('/').pop();
    return seen.includes(name) ? name : shape(schemas[name], schemas, indent, [...seen, name]);
  }
  if (schema.oneOf) return schema.oneOf.map((s) => shape(s, schemas, indent, seen)).join(' | ');
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(' | ');
  const type = Array.isArray(schema.type) ? schema.type.filter((t) => t !== 'null')[0] : schema.type;
  if (type === 'array') return `[${shape(schema.items, schemas, indent, seen)}]`;
  if (type === 'object' && schema.properties) {
    const required = schema.required || [];
    const lines = Object.entries(schema.properties).map(([name, property]) => {
      const note = property.description ? `  // ${property.description}` : '';
      return `${indent}  ${name}${required.includes(name) ? '' : '?'}: ${shape(property, schemas, indent + '  ', seen)}${note}`;
    });
    return `{\n${lines.join('\n')}\n${indent}}`;
  }
  return type || 'any';
};

const operation = (method, path, op, schemas) => {
  const d = element('details', {}, element('summary', {},
    element('span', { className: 'method', textContent: method.toUpperCase() }),
    element('span', { className: 'path', textContent: path }), ' – ' + (op.summary || '')));
  if (op.description) d.append(element('p', { textContent: op.description }));
  if (op.parameters?.length) {
    d.append(element('table', {}, ...op.parameters.map((p) => element('tr', {},
      element('td', {}, element('code', { textContent: p.name })), element('td', { textContent: p.in }),
      element('td', { textContent: (p.required ? 'required. ' : '') + (p.description || '') })))));
  }
  const content = (title, media) => {
    for (const [type, { schema }] of Object.entries(media || {})) {
      d.append(element('p', { textContent: `${title} ${type}` }), element('pre', { textContent: shape(schema, schemas) }));
    }
  };
  content('Request', op.requestBody?.content);
  for (const [status, response] of Object.entries(op.responses || {})) {
    if (status !== 'default') content(`${status} ${response.description || ''}`, response.content);
  }
  return d;
};

fetch('/openapi.json').then((r) => r.json()).then((doc) => {
  const groups = new Map();
  for (const [path, item] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(item)) {
      const tag = op.tags?.[0] || 'other';
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(method, path, op, doc.components.schemas));
    }
  }
  const main = document.getElementById('api');
  main.replaceChildren();
  for (const [tag, operations] of groups) main.append(element('h2', { textContent: tag }), ...operations);
}, (failed) => { document.getElementById('api').textContent = 'openapi.json could not be read: ' + failed; });
