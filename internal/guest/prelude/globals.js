// The global names that programs see, the same in every engine. What is not here does not exist: whatever completes off
// the guest's thread, or shows the collector or the machine.

import { defineProperty, deleteProperty, getOwnPropertyDescriptor, global, indexOf, ownKeys } from './intrinsics.js';

// language holds what the engine itself supplies, as far as it does: Node.js before version 24 lacks the newest.
const language = [
  'AggregateError', 'Array', 'ArrayBuffer', 'AsyncDisposableStack', 'BigInt', 'BigInt64Array', 'BigUint64Array', 'Boolean', 'DataView', 'Date', 'DisposableStack',
  'Error', 'EvalError', 'FinalizationRegistry', 'Float16Array', 'Float32Array', 'Float64Array', 'Function', 'Infinity', 'Int16Array',
  'Int32Array', 'Int8Array', 'Iterator', 'JSON', 'Map', 'Math', 'NaN', 'Number', 'Object', 'Promise', 'Proxy',
  'RangeError', 'ReferenceError', 'Reflect', 'RegExp', 'Set', 'String', 'SuppressedError', 'Symbol', 'SyntaxError', 'TypeError',
  'URIError', 'Uint16Array', 'Uint32Array', 'Uint8Array', 'Uint8ClampedArray', 'WeakMap', 'WeakRef', 'WeakSet',
  'decodeURI', 'decodeURIComponent', 'encodeURI', 'encodeURIComponent', 'escape', 'eval', 'globalThis', 'isFinite',
  'isNaN', 'parseFloat', 'parseInt', 'undefined', 'unescape',
];

// web holds what web/ supplies.
const web = [
  'AbortController', 'AbortSignal', 'Blob', 'Buffer', 'CustomEvent', 'DOMException', 'Event', 'EventTarget', 'File', 'FormData',
  'Headers', 'Intl', 'Request', 'Response',
  'TextDecoder', 'TextEncoder', 'URL', 'URLSearchParams', 'atob', 'btoa', 'crypto', 'fetch', 'queueMicrotask', 'structuredClone',
];

// runtime holds what the prelude supplies.
const runtime = [
  'DeniedError', 'FSError', 'InDoubtError', 'LimitError', 'NeedsLoginError', 'SessionLostError', 'ToolError',
  'callMCPTool', 'clearInterval', 'clearTimeout', 'console', 'env', 'fs', 'get_mcp_prompt', 'get_mcp_tool_details', 'get_server_index',
  'get_tool_details', 'get_virtual_library', 'input', 'introspect_servers', 'list_mcp_prompts', 'list_mcp_resource_templates',
  'list_mcp_resources', 'list_mcp_tools', 'list_server_functions', 'performance', 'pii', 'read_mcp_resource', 'require', 'search_mcp_tools', 'search_tools',
  'setInterval', 'setTimeout', 'tools', 'utils',
];

// allowed are all global names, in order.
export const allowed = [...language, ...web, ...runtime].sort();

// prune deletes every other global and makes what stays invisible to for-in, as built-ins are.
export function prune() {
  // Raw JSON is text that JSON.stringify writes as it is: what the prelude encodes would not be what it had looked at.
  deleteProperty(global.JSON, 'rawJSON');
  deleteProperty(global.JSON, 'isRawJSON');
  const names = ownKeys(global);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    if (typeof name === 'symbol') continue;
    if (indexOf(allowed, name) < 0) {
      if (!deleteProperty(global, name)) throw new Error(`global ${name} cannot be deleted`);
      continue;
    }
    const descriptor = getOwnPropertyDescriptor(global, name);
    if (descriptor.enumerable && descriptor.configurable) {
      defineProperty(global, name, { __proto__: null, ...descriptor, enumerable: false });
    }
  }
}
