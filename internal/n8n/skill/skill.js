/**
 * Skill: n8n-workflow-builder
 * Purpose: Builds workflows of n8n, stores them when they are valid, and says why they failed.
 * Version: 1.0
 * Usage: import { buildTool, deploy } from '/skills/n8n-workflow-builder/skill.js'
 */

const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '') || 'workflow';

function need(values) {
  for (const [name, value] of Object.entries(values)) {
    if (typeof value !== 'string' || value.trim() === '') throw new TypeError(`${name} is missing: give a text`);
  }
}

const webhook = (path, notes) => ({
  name: 'Webhook', type: 'n8n-nodes-base.webhook', ...(notes ? { notes } : {}),
  parameters: { httpMethod: 'POST', path: path.replace(/^\/+/, ''), responseMode: 'lastNode', options: {} },
});

/** A workflow whose nodes follow one another. */
export function chain(name, nodes, settings = {}) {
  need({ name });
  const connections = {};
  nodes.slice(1).forEach((node, i) => {
    connections[nodes[i].name] = { main: [[{ node: node.name, type: 'main', index: 0 }]] };
  });
  return { name, nodes, connections, settings: { executionOrder: 'v1', ...settings } };
}

/** A webhook whose message is posted to a Slack channel. */
export function buildSlackNotificationWorkflow({ channel, webhookPath, name = `Slack notification to ${channel}`, credential } = {}) {
  need({ channel, webhookPath });
  return chain(name, [
    webhook(webhookPath, 'Posts a message to Slack. {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}'),
    {
      name: 'Slack', type: 'n8n-nodes-base.slack', ...(credential ? { credentials: { slackApi: { name: credential } } } : {}),
      parameters: {
        resource: 'message', operation: 'post', select: 'channel', channelId: { __rl: true, mode: 'name', value: channel },
        messageType: 'text', text: '={{ $json.body.message }}', otherOptions: {},
      },
    },
  ]);
}

/** A webhook that calls an API and answers with its items. */
export function buildApiProcessingWorkflow({ apiUrl, method = 'GET', name = 'API processing', webhookPath = slug(name) } = {}) {
  need({ apiUrl, method });
  return chain(name, [
    webhook(webhookPath),
    { name: 'Call API', type: 'n8n-nodes-base.httpRequest', parameters: { method: method.toUpperCase(), url: apiUrl, options: {} } },
    {
      name: 'Process', type: 'n8n-nodes-base.code',
      parameters: { jsCode: 'const items = $input.all().map((item) => item.json);\nreturn [{ json: { count: items.length, items } }];' },
    },
  ]);
}

/** A workflow that is a tool of n8n-bridge: code is JavaScript that gets input and returns an object. */
export function buildTool({ name, description, input = { type: 'object', properties: {} }, code, webhookPath = `tool-${slug(name ?? '')}` } = {}) {
  need({ name, description, code });
  const notes = `${description}\n${JSON.stringify(input)}`;
  const jsCode = `const input = $input.first().json.body ?? {};\nconst value = await (async () => {\n${code}\n})();\n` +
    "return [{ json: value !== null && typeof value === 'object' && !Array.isArray(value) ? value : { result: value ?? null } }];";
  return {
    ...chain(name, [webhook(webhookPath, notes), { name: 'Code', type: 'n8n-nodes-base.code', parameters: { jsCode } }]),
    tags: ['harness-tool'],
  };
}

/** Stores a workflow that is valid. Throws with the findings for any other. */
export async function deploy(workflow, { activate = true } = {}) {
  const check = await callMCPTool('n8n-workflows__validate_workflow', { workflow });
  if (!check.valid) throw new Error(`the workflow is not valid: ${check.errors.join('; ')}`);
  const made = await callMCPTool('n8n-workflows__create_workflow', { ...workflow, active: activate });
  if (made.problem) throw new Error(`workflow ${made.id} was created, but ${made.problem}`);
  return { id: made.id, name: made.name, active: made.active, warnings: check.warnings ?? [] };
}

/** Where and why a workflow failed last, with the parameters of that node; null if no failure is known. */
export async function diagnose(workflowId) {
  const [last] = await callMCPTool('n8n-executions__list_executions', { workflowId, status: 'error', limit: 1 });
  if (!last) return null;
  const { error } = await callMCPTool('n8n-executions__get_execution', { executionId: last.id });
  const { nodes } = await callMCPTool('n8n-workflows__get_workflow', { workflowId });
  const node = nodes.find((n) => n.name === error?.node);
  return { executionId: last.id, ...error, ...(node ? { type: node.type, parameters: node.parameters } : {}) };
}
