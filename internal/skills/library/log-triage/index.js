/**
 * Skill: log-triage
 * Purpose: Groups the lines of a log by template, with rates, and what is new against a baseline.
 * Version: 1.0
 * Usage: import triage from '/skills/log-triage/index.js'; const {groups} = await triage({text})
 */

const MAX_TEMPLATES = 10_000;
const MAX_TEMPLATE = 400; // characters of a message that its template is made of
const MAX_EXAMPLE = 500;
const MAX_GONE = 50;
const MAX_WORDS = 20_000; // words whose templates are remembered
const OTHER = '<further lines>';
const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'none'];

export default async function triage(input) {
  const { lines, baseline, maxGroups, year } = checked(input);
  const state = { year, groups: new Map(), words: new Map(), entries: 0, from: null, to: null, noZone: 0, other: 0, levels: Object.fromEntries(LEVELS.map((level) => [level, 0])) };
  let entry = null;
  let count = 0;
  const end = () => {
    if (entry) add(state, entry);
    entry = null;
  };
  lines.forEach((raw, i) => {
    const line = raw.endsWith('\r') ? raw.slice(0, -1) : raw;
    if (line.trim() === '') return;
    count++;
    if (entry && /^(?:\s+\S|Caused by:|\.\.\. \d+ more)/.test(line)) {
      if (entry.text.length < MAX_EXAMPLE) entry.text += `\n${line}`;
      entry.last = i + 1;
      return;
    }
    end();
    entry = { text: line, first: i + 1, last: i + 1, head: line };
  });
  end();

  const hours = state.from === null ? null : round((state.to - state.from) / 3_600_000);
  const perHour = (n) => (hours === null ? null : round(n / Math.max(hours, 1 / 60)));
  const before = baseline ? new Map(baseline.groups.map((group) => [`${group.level} ${group.template}`, group])) : null;
  const groups = [...state.groups].map(([key, group]) => {
    const made = {
      template: group.template, level: group.level, count: group.count, first: time(group.first), last: time(group.last),
      firstLine: group.firstLine, lastLine: group.lastLine, perHour: perHour(group.count), peak: peakOf(group), example: group.example,
    };
    if (before) {
      const old = before.get(key);
      made.new = old === undefined;
      const was = old && baseline.hours !== null ? old.count / Math.max(baseline.hours, 1 / 60) : null;
      made.change = was && made.perHour !== null ? round(made.perHour / was) : null;
    }
    return made;
  });
  groups.sort((a, b) => Number(b.new ?? false) - Number(a.new ?? false) || LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) || b.count - a.count || a.firstLine - b.firstLine);
  const problems = [];
  if (state.noZone > 0) problems.push(`${state.noZone} ${state.noZone === 1 ? 'time has' : 'times have'} no zone and counted as UTC`);
  if (state.other > 0) problems.push(`there are more than ${MAX_TEMPLATES} templates; ${state.other} further ${state.other === 1 ? 'entry is' : 'entries are'} in the group ${OTHER}`);
  const result = {
    lines: count, entries: state.entries, levels: state.levels, from: time(state.from), to: time(state.to), hours,
    groups: groups.slice(0, maxGroups), more: Math.max(groups.length - maxGroups, 0),
    baseline: { hours, groups: groups.map(({ template, level, count: n }) => ({ template, level, count: n })) }, problems,
  };
  if (before) {
    const gone = baseline.groups.filter((group) => !state.groups.has(`${group.level} ${group.template}`));
    result.gone = gone.sort((a, b) => b.count - a.count).slice(0, MAX_GONE).map(({ template, level, count: n }) => ({ template, level, count: n }));
  }
  return result;
}

function checked(input) {
  const { text, lines, baseline, maxGroups = 50, year } = input ?? {};
  if ((typeof text === 'string') === Array.isArray(lines)) throw new TypeError('give either text, a log, or lines, a list of texts');
  if (lines?.some((line) => typeof line !== 'string')) throw new TypeError('lines has to be a list of texts');
  if (baseline !== undefined) {
    const ok = Array.isArray(baseline?.groups) && baseline.groups.every((group) => typeof group?.template === 'string' && typeof group.level === 'string' && Number.isFinite(group.count));
    if (!ok || !(baseline.hours === null || Number.isFinite(baseline.hours))) throw new TypeError('baseline has to be the field baseline of an earlier answer: {hours, groups: [{template, level, count}]}');
  }
  if (!Number.isInteger(maxGroups) || maxGroups < 1) throw new TypeError('maxGroups has to be a whole number above 0');
  if (year !== undefined && !Number.isInteger(year)) throw new TypeError('year has to be a year such as 2024');
  return { lines: lines ?? text.split('\n'), baseline, maxGroups, year: year ?? new Date().getUTCFullYear() };
}

const round = (n) => Number(n.toPrecision(4));
const time = (ms) => (ms === null ? null : new Date(ms).toISOString());

// add puts an entry into its group.
function add(state, { head, text, first, last }) {
  state.entries++;
  const { ms, level, message } = parts(head, state);
  state.levels[level]++;
  let template = templateOf(message, state.words);
  let key = `${level} ${template}`;
  let group = state.groups.get(key);
  if (!group && state.groups.size >= MAX_TEMPLATES) {
    state.other++;
    template = OTHER;
    key = `${level} ${template}`;
    group = state.groups.get(key);
  }
  if (!group) {
    group = { template, level, count: 0, first: null, last: null, firstLine: first, lastLine: last, example: text.length > MAX_EXAMPLE ? `${text.slice(0, MAX_EXAMPLE)}…` : text, minutes: new Map() };
    state.groups.set(key, group);
  }
  group.count++;
  group.lastLine = last;
  if (ms === null) return;
  // The lines of a log need not be in the order of their times.
  if (group.first === null || ms < group.first) group.first = ms;
  if (group.last === null || ms > group.last) group.last = ms;
  if (state.from === null || ms < state.from) state.from = ms;
  if (state.to === null || ms > state.to) state.to = ms;
  const minute = Math.floor(ms / 60_000);
  group.minutes.set(minute, (group.minutes.get(minute) ?? 0) + 1);
}

function peakOf({ minutes }) {
  let peak = null;
  for (const [minute, count] of minutes) if (peak === null || count > peak.count) peak = { minute, count };
  return peak && { minute: `${new Date(peak.minute * 60_000).toISOString().slice(0, 16)}Z`, count: peak.count };
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const ISO = /(\d{4})[-/](\d{2})[-/](\d{2})[T ](\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?\s?(Z\b|[+-]\d{2}:?\d{2}\b)?/;
const WEB = /\[(\d{1,2})\/([A-Z][a-z]{2})\/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-]\d{4})\]/;
const SYSLOG = /^(?:<\d{1,3}>)?([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d{2}):(\d{2}):(\d{2})\b/;
const EPOCH = /^\[?(\d{10})(?:\.(\d{1,9}))?\]?(?=\s)|^\[?(\d{13})\]?(?=\s)/;

// timeOf finds the time of a line: {ms, zone: whether it has one, at, length}, or null.
function timeOf(line, year) {
  let m = ISO.exec(line.length > 120 ? line.slice(0, 120) : line);
  if (m) return { ms: utc(m[1], Number(m[2]), m[3], m[4], m[5], m[6], m[7]) - offset(m[8]), zone: m[8] !== undefined, at: m.index, length: m[0].length };
  if ((m = SYSLOG.exec(line)) && MONTHS.includes(m[1])) return { ms: utc(year, MONTHS.indexOf(m[1]) + 1, m[2], m[3], m[4], m[5]), zone: false, at: 0, length: m[0].length };
  if (line.includes('[') && (m = WEB.exec(line)) && MONTHS.includes(m[2])) {
    return { ms: utc(m[3], MONTHS.indexOf(m[2]) + 1, m[1], m[4], m[5], m[6]) - offset(m[7]), zone: true, at: m.index, length: m[0].length };
  }
  if ((m = EPOCH.exec(line))) return { ms: m[3] ? Number(m[3]) : Number(m[1]) * 1000 + Math.trunc(Number(`0.${m[2] ?? 0}`) * 1000), zone: true, at: 0, length: m[0].length };
  return null;
}

const utc = (y, month, d, h, min, s, fraction) => Date.UTC(Number(y), month - 1, Number(d), Number(h), Number(min), Number(s), fraction ? Math.trunc(Number(`0.${fraction}`) * 1000) : 0);

function offset(zone) {
  if (zone === undefined || zone === 'Z') return 0;
  return (zone[0] === '-' ? -1 : 1) * (Number(zone.slice(1, 3)) * 60 + Number(zone.slice(-2))) * 60_000;
}

const LEVEL = /(?:^|[\s[(|<])(FATAL|CRITICAL|CRIT|PANIC|EMERG|ALERT|ERROR|ERR|SEVERE|WARNING|WARN|INFO|NOTICE|DEBUG|TRACE|VERBOSE)(?=[\s\]):,|>]|$)[\]):,|>]*|\[(fatal|critical|crit|emerg|alert|error|err|warning|warn|info|notice|debug|trace)\]|\b(?:level|lvl|severity)=["']?(\w+)["']?/;
const LEVEL_OF = {
  __proto__: null, fatal: 'fatal', critical: 'fatal', crit: 'fatal', panic: 'fatal', emerg: 'fatal', alert: 'fatal', error: 'error', err: 'error', severe: 'error',
  warning: 'warn', warn: 'warn', info: 'info', notice: 'info', debug: 'debug', trace: 'debug', verbose: 'debug',
};

// parts splits a line into its time, level and message.
function parts(line, state) {
  if (line.startsWith('{')) {
    const found = ofJSON(line, state);
    if (found) return found;
  }
  const found = timeOf(line, state.year);
  let message = line;
  let ms = null;
  if (found && Number.isFinite(found.ms) && Math.abs(found.ms) < 8.64e15) {
    ms = found.ms;
    if (!found.zone) state.noZone++;
    message = found.at === 0 ? line.slice(found.length) : `${line.slice(0, found.at)}<time>${line.slice(found.at + found.length)}`;
    if (message.startsWith('[<time>]')) message = message.slice(8);
  }
  const head = message.slice(0, 100);
  const m = LEVEL.exec(head);
  const level = m ? (LEVEL_OF[(m[1] ?? m[2] ?? m[3]).toLowerCase()] ?? 'none') : 'none';
  if (m && level !== 'none') message = `${message.slice(0, m.index)} ${message.slice(m.index + m[0].length)}`;
  return { ms, level, message };
}

// ofJSON reads a line of JSON, or returns null for a text that is none or has no message.
function ofJSON(line, state) {
  let value;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  const field = (...names) => {
    const name = names.find((one) => Object.hasOwn(value, one) && value[one] !== null);
    return name === undefined ? undefined : value[name];
  };
  const message = field('message', 'msg', 'log', 'event', 'error', 'err');
  if (message === undefined) return null;
  const at = field('time', 'timestamp', 'ts', '@timestamp', 't', 'date');
  let ms = null;
  if (typeof at === 'number') ms = at < 1e11 ? Math.trunc(at * 1000) : Math.trunc(at);
  else if (typeof at === 'string') {
    const found = timeOf(at, state.year);
    ms = found?.ms ?? null;
    if (found && !found.zone) state.noZone++;
  }
  if (ms !== null && !(Math.abs(ms) < 8.64e15)) ms = null;
  const given = field('level', 'severity', 'lvl', 'log.level');
  // Numbers are those of pino and bunyan.
  const level = typeof given === 'number' ? (given >= 60 ? 'fatal' : given >= 50 ? 'error' : given >= 40 ? 'warn' : given >= 30 ? 'info' : 'debug') : (LEVEL_OF[String(given).toLowerCase()] ?? 'none');
  return { ms, level, message: typeof message === 'string' ? message : JSON.stringify(message) };
}

// templateOf replaces what varies between lines of one kind.
function templateOf(message, words) {
  let text = message.length > MAX_TEMPLATE ? message.slice(0, MAX_TEMPLATE) : message;
  if (text.includes('"')) text = text.replace(/"((?:[^"\\]|\\.)*)"/g, (whole, inside) => (/^(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) /.test(inside) ? whole : '"<text>"'));
  let template = '';
  for (const word of text.split(/\s+/)) {
    if (word === '') continue;
    let known = words.get(word);
    if (known === undefined) {
      known = wordTemplate(word);
      if (words.size < MAX_WORDS) words.set(word, known);
    }
    template += template === '' ? known : ` ${known}`;
  }
  return template;
}

const TOKEN = /\[[A-Z][A-Z0-9_]*_\d+\]|[\w.+-]*pii_\d+\w*(?:@[\w.-]+)?|\bd\d+\.pii\.invalid\b/gi;
const EMAIL = /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g;
const ID = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
const IP = /\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b(?::\d+)?|\b(?:[0-9a-f]{1,4}:){3,7}:?[0-9a-f]{1,4}\b/gi;
const HEX = /\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}\b/gi;
const NUMBER = /\d+(?:[.,:]\d+)*/g;

function wordTemplate(word) {
  let text = word;
  if (/\d/.test(text)) text = text.replace(TOKEN, '<token>');
  if (text.includes('@')) text = text.replace(EMAIL, '<email>');
  if (text.includes('?') && text.includes('=')) text = text.replace(/\?[^\s"')\]]*/, '?<text>');
  if (!/\d/.test(text)) return text;
  return text.replace(ID, '<id>').replace(IP, '<ip>').replace(HEX, '<hex>').replace(NUMBER, '<n>');
}
