import { searchNodes, getNode } from './servers/n8n-mcp';
const triggers = await searchNodes({ query: 'webhook', limit: 10 }); // it finds words of names and descriptions
const chats = await searchNodes({ query: 'slack', limit: 10 });
const [trigger, chat] = [triggers, chats].map((found) => found.results[0].workflowNodeType);
if (trigger !== 'n8n-nodes-base.webhook' || chat !== 'n8n-nodes-base.slack') throw new Error(`found ${trigger} and ${chat}`);
return { trigger, chat: await getNode({ nodeType: chats.results[0].nodeType }) };
