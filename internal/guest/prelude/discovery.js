// Finding tools, resources and prompts: list_mcp_tools, search_mcp_tools, get_mcp_tool_details and the rest of the catalog.

import { attempt, isArray, NativeTypeError } from './intrinsics.js';
import { request } from './calls.js';
import { encode } from './json.js';
import { kindName } from './tools.js';
import { quote, record } from './text.js';

const catalog = (name, args) => request('catalog', name, args);
const isOptions = (value) => typeof value === 'object' && value !== null && !isArray(value);

function text(caller, what, value) {
  if (typeof value === 'string') return quote(value);
  throw new NativeTypeError(`${caller} takes ${what} as a string; got ${kindName(value)}`);
}

// search takes (query, {limit, detail}) or one object of all three; a bare number is the limit.
function search(caller, query, options) {
  if (isOptions(query)) {
    options = query;
    query = query.query;
  }
  if (typeof options === 'number') options = { __proto__: null, limit: options };
  if (options !== undefined && options !== null && !isOptions(options)) {
    throw new NativeTypeError(`${caller} takes its options as an object, like {limit: 5}; got ${kindName(options)}`);
  }
  const limit = options?.limit;
  if (limit !== undefined && typeof limit !== 'number') {
    throw new NativeTypeError(`${caller} takes limit as a number; got ${kindName(limit)}`);
  }
  const detail = options?.detail;
  return catalog('search', record(
    'query', text(caller, 'what to search for', query),
    'limit', limit === undefined ? undefined : encode(limit, 'limit', 0),
    'detail', detail === undefined ? undefined : encode(detail, 'detail', 0),
  ));
}

// details takes a tool's name, {name} or {toolName}, or a server's name and a function's.
function details(caller, name, functionName) {
  if (isOptions(name)) name = name.name ?? name.toolName;
  const full = typeof name === 'string' && typeof functionName === 'string' ? `${name}__${functionName}` : name;
  return catalog('details', record('name', text(caller, "the tool's name", full)));
}

function ofServer(caller, name, server) {
  return catalog(name, record('server', text(caller, "the server's name", server)));
}

function listOf(caller, name, server) {
  if (isOptions(server)) server = server.server;
  const all = server === undefined || server === null;
  return request('resource', name, record('server', all ? undefined : text(caller, "the server's name", server)));
}

function readResource(server, uri) {
  if (isOptions(server)) {
    uri = server.uri;
    server = server.server;
  }
  const caller = 'read_mcp_resource';
  return request('resource', 'read', record(
    'server', text(caller, "the server's name", server), 'uri', text(caller, "the resource's URI", uri),
  ));
}

// getPrompt takes (server, name, args) or one object of all three. args are texts by name.
function getPrompt(server, name, args) {
  if (isOptions(server)) {
    args = server.args ?? server.arguments;
    name = server.name;
    server = server.server;
  }
  const caller = 'get_mcp_prompt';
  if (args !== undefined && args !== null && !isOptions(args)) {
    throw new NativeTypeError(`${caller} takes the prompt's arguments as an object; got ${kindName(args)}`);
  }
  return request('resource', 'prompt', record(
    'server', text(caller, "the server's name", server), 'name', text(caller, "the prompt's name", name),
    'args', args === undefined || args === null ? undefined : encode(args, 'the arguments', 0),
  ));
}

export const discovery = {
  __proto__: null,
  list_mcp_tools: () => attempt(() => catalog('list', '{}')),
  search_mcp_tools: (query, options) => attempt(() => search('search_mcp_tools', query, options)),
  search_tools: (query, options) => attempt(() => search('search_tools', query, options)),
  get_mcp_tool_details: (name) => attempt(() => details('get_mcp_tool_details', name)),
  get_tool_details: (name, functionName) => attempt(() => details('get_tool_details', name, functionName)),
  introspect_servers: () => attempt(() => catalog('servers', '{}')),
  get_virtual_library: () => attempt(() => catalog('library', '{}')),
  get_server_index: (server) => attempt(() => ofServer('get_server_index', 'index', server)),
  list_server_functions: (server) => attempt(() => ofServer('list_server_functions', 'functions', server)),
  list_mcp_resources: (server) => attempt(() => listOf('list_mcp_resources', 'list', server)),
  list_mcp_resource_templates: (server) => attempt(() => listOf('list_mcp_resource_templates', 'templates', server)),
  read_mcp_resource: (server, uri) => attempt(() => readResource(server, uri)),
  list_mcp_prompts: (server) => attempt(() => listOf('list_mcp_prompts', 'prompts', server)),
  get_mcp_prompt: (server, name, args) => attempt(() => getPrompt(server, name, args)),
};
