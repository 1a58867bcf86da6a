import { searchNodes, getNodeEssentials } from './servers/n8n-nodes';
const [trigger] = await searchNodes('start when a url is called');
const [chat] = await searchNodes('post a message to a slack channel');
return { trigger, chat: await getNodeEssentials(chat, 'message', 'post') };
