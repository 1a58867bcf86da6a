/**
 * Skill: paged-calls
 * Purpose: Reads all pages of a paginated tool, with bounded retries.
 * Version: 1.0
 * Usage: import pagedCalls from '/skills/paged-calls/index.js'; const {items} = await pagedCalls({by: 'cursor', call: ({cursor}) => tools.crm.list({cursor})})
 */

const WAYS = ['cursor', 'offset', 'page', 'link'];
const NEXT = {
  cursor: ['next_cursor', 'nextCursor', 'next_page_token', 'nextPageToken', 'cursor.next', 'paging.cursors.after', 'paging.next.after', 'pagination.next_cursor',
    'response_metadata.next_cursor', 'meta.next_cursor', 'page_info.end_cursor', 'pageInfo.endCursor', 'continuationToken', 'next'],
  link: ['next', 'links.next', '_links.next.href', 'links.next.href', '@odata.nextLink', 'nextLink', 'next_url', 'next_page_url', 'paging.next'],
};
const MORE = ['has_more', 'hasMore', 'has_next_page', 'pageInfo.hasNextPage', 'page_info.has_next_page', 'more'];
const LISTS = ['items', 'data', 'results', 'records', 'values', 'value', 'entries', 'rows'];
const STATUS = new Set([408, 425, 429, 500, 502, 503, 504]);
const WORDS = /time[d]?[ -]?out|rate.?limit|too many requests|temporar|try again|retry|overload|unavailable|connection (?:was )?(?:lost|reset|closed)|ECONNRESET|ETIMEDOUT|\b(?:429|502|503|504)\b/i;
const NEVER = new Set(['InDoubtError', 'DeniedError', 'LimitError', 'NeedsLoginError', 'SessionLostError', 'TypeError', 'RangeError', 'ReferenceError', 'SyntaxError', 'FSError']);
const MAX_WAIT = 30_000;
const MAX_RETRY_AFTER = 60_000;
const MAX_NUMBER = 1_000_000; // upper bound of maxPages and maxItems

export default async function pagedCalls(input) {
  const options = checked(input);
  const { call, by, limit, maxPages, maxItems, key, partial } = options;
  const items = [];
  const keys = new Set();
  const seen = new Set();
  const state = { retries: 0 };
  let at = options.start ?? { cursor: undefined, link: undefined, offset: 0, page: 1 }[by];
  let repeated = 0;
  let before = null; // the text of the page before
  const result = (complete, why, next) => ({ items, complete, why, pages: state.pages, retries: state.retries, repeated, next: next ?? null });

  for (state.pages = 0; ; ) {
    if (state.pages >= maxPages) return result(false, `maxPages (${maxPages}) is reached`, at);
    let answer;
    try {
      answer = await attempt(() => call({ [by]: at, limit, number: state.pages + 1 }), options, state);
    } catch (error) {
      if (!(error instanceof PageError)) throw error;
      const where = `page ${state.pages + 1}${at === undefined ? '' : ` (${by} ${clip(String(at))})`} failed after ${error.attempts} ${error.attempts === 1 ? 'attempt' : 'attempts'}: ${error.cause?.message ?? error.cause}`;
      if (partial) return result(false, where, at);
      throw new Error(where, { cause: error.cause });
    }
    state.pages++;
    const page = listOf(answer, options.items);
    for (const item of page) {
      if (key) {
        const k = typeof key === 'function' ? key(item) : read(item, key);
        const text = k === undefined || k === null ? null : `${typeof k}${typeof k === 'object' ? JSON.stringify(k) : k}`;
        if (text !== null && keys.has(text)) {
          repeated++;
          continue;
        }
        if (text !== null) keys.add(text);
      }
      items.push(item);
    }
    const next = nextOf(answer, page, at, options);
    if (items.length >= maxItems && (items.length > maxItems || next !== undefined)) {
      items.length = maxItems;
      // The page is read again when the caller goes on, because some of its items may be missing.
      return result(false, `maxItems (${maxItems}) is reached`, at);
    }
    if (next === undefined) return result(true, 'the last page was read', null);
    if (by === 'cursor' || by === 'link') {
      if (at !== undefined) seen.add(at);
      if (seen.has(next)) throw new Error(`the ${by} ${clip(next)} of page ${state.pages} came before: does call pass ${by} on to the tool?`);
    } else {
      const text = JSON.stringify(page);
      if (text === before) throw new Error(`page ${state.pages} has the same items as the one before: does call pass ${by} on to the tool?`);
      before = text;
    }
    at = next;
  }
}

const clip = (text) => (text.length > 80 ? `${text.slice(0, 80)}…` : text);

function checked(input) {
  const options = { limit: 100, maxPages: 100, maxItems: 10_000, retries: 4, wait: 500, partial: false, ...input };
  if (typeof options.call !== 'function') throw new TypeError('call is missing: give a function such as ({cursor, limit}) => tools.crm.listContacts({cursor, limit})');
  if (!WAYS.includes(options.by)) throw new TypeError(`by has to be one of ${WAYS.join(', ')}`);
  for (const [name, low, high] of [['limit', 1, MAX_NUMBER], ['maxPages', 1, MAX_NUMBER], ['maxItems', 1, MAX_NUMBER], ['retries', 0, 10], ['wait', 0, MAX_WAIT]]) {
    const n = options[name];
    if (!Number.isInteger(n) || n < low || n > high) throw new TypeError(`${name} has to be a whole number from ${low} to ${high}`);
  }
  for (const name of ['items', 'next', 'more', 'total', 'key']) {
    if (options[name] !== undefined && typeof options[name] !== 'string' && typeof options[name] !== 'function') throw new TypeError(`${name} has to be a path such as "data.items", or a function`);
  }
  if (options.retry !== undefined && typeof options.retry !== 'function') throw new TypeError('retry has to be a function (error) => boolean');
  if ((options.by === 'offset' || options.by === 'page') && options.start !== undefined && !Number.isInteger(options.start)) throw new TypeError(`start has to be a whole number by ${options.by}`);
  return options;
}

// PageError is the last failure of a page.
class PageError extends Error {
  constructor(cause, attempts) {
    super('page', { cause });
    this.attempts = attempts;
  }
}

async function attempt(call, { retries, wait, retry }, state) {
  for (let n = 0; ; n++) {
    try {
      return await call();
    } catch (error) {
      if (n >= retries || !(retry ?? mayBeRepeated)(error)) throw new PageError(error, n + 1);
      state.retries++;
      const after = retryAfter(error);
      const pause = after ?? Math.min(wait * 2 ** n, MAX_WAIT);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

function mayBeRepeated(error) {
  if (error === null || typeof error !== 'object' || NEVER.has(error.name)) return false;
  const status = error.data?.status ?? error.status;
  if (Number.isInteger(status)) return STATUS.has(status);
  return WORDS.test(String(error.message));
}

// retryAfter returns the milliseconds that a server asks to wait for, or undefined.
function retryAfter(error) {
  const value = error?.data?.headers?.['retry-after'];
  if (value === undefined || value === null || value === '') return undefined;
  const seconds = Number(value);
  const time = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(value) - Date.now();
  return Number.isFinite(time) ? Math.min(Math.max(time, 0), MAX_RETRY_AFTER) : undefined;
}

// read follows a path of own fields. A field whose name has a dot comes before the path.
function read(value, path) {
  if (value === null || typeof value !== 'object') return undefined;
  if (Object.hasOwn(value, path)) return value[path];
  for (const part of path.split('.')) {
    if (value === null || typeof value !== 'object' || !Object.hasOwn(value, part)) return undefined;
    value = value[part];
  }
  return value;
}

const pick = (answer, where) => (typeof where === 'function' ? where(answer) : read(answer, where));

const first = (answer, paths) => {
  for (const path of paths) {
    const value = read(answer, path);
    if (value !== undefined) return value;
  }
  return undefined;
};

function listOf(answer, items) {
  const list = items === undefined ? (Array.isArray(answer) ? answer : guess(answer)) : pick(answer, items);
  if (Array.isArray(list)) return list;
  const fields = answer !== null && typeof answer === 'object' ? Object.keys(answer).slice(0, 20).join(', ') : typeof answer;
  throw new TypeError(`no list of items was found in the answer, which has ${fields || 'no fields'}: give items, such as "data.items"`);
}

function guess(answer) {
  if (answer === null || typeof answer !== 'object') return undefined;
  const named = LISTS.find((name) => Object.hasOwn(answer, name) && Array.isArray(answer[name]));
  if (named) return answer[named];
  const lists = Object.keys(answer).filter((name) => Array.isArray(answer[name]));
  return lists.length === 1 ? answer[lists[0]] : undefined;
}

// nextOf returns where the next page is, or undefined after the last one.
function nextOf(answer, page, at, { by, limit, next, more, total }) {
  const goesOn = more === undefined ? first(answer, MORE) : pick(answer, more);
  if (goesOn === false) return undefined;
  if (by === 'cursor' || by === 'link') {
    const found = next === undefined ? first(answer, NEXT[by]) : pick(answer, next);
    if (found === undefined || found === null || found === '' || found === false) return undefined;
    if (typeof found !== 'string' && typeof found !== 'number') throw new TypeError(`the next ${by} is no text: give next, such as "paging.next"`);
    return found;
  }
  if (page.length === 0) return undefined;
  const step = by === 'offset' ? page.length : 1;
  const all = total === undefined ? undefined : pick(answer, total);
  if (Number.isFinite(all)) {
    const read = by === 'offset' ? at + page.length : (at - 1) * limit + page.length;
    return read < all ? at + step : undefined;
  }
  return goesOn === true || page.length >= limit ? at + step : undefined;
}
