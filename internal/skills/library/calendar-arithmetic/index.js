/**
 * Skill: calendar-arithmetic
 * Purpose: Computes with dates: business days, month ends, ISO weeks, durations, time zones.
 * Version: 1.0
 * Usage: import calendar from '/skills/calendar-arithmetic/index.js'; const {date} = await calendar({do: 'addBusinessDays', date: '2024-12-23', days: 3})
 */

const MAX_BUSINESS_DAYS = 100_000;
const MAX_SPAN = 400 * 366; // days
const NAMES = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
const DAY_MS = 86_400_000;

export default async function calendar(input) {
  if (input === null || typeof input !== 'object') throw new TypeError('give an object {do, …} or {questions: […]}');
  if (input.questions === undefined) return answer(input, new Workdays(input));
  if (!Array.isArray(input.questions)) throw new TypeError('questions has to be a list of objects {do, …}');
  const shared = new Workdays(input);
  let errors = 0;
  const answers = input.questions.map((question) => {
    try {
      const own = question !== null && typeof question === 'object' && (question.holidays !== undefined || question.weekend !== undefined);
      return answer(question, own ? new Workdays({ ...input, ...question }) : shared);
    } catch (error) {
      errors++;
      return { error: error.message };
    }
  });
  return { answers, errors };
}

function answer(question, workdays) {
  const name = question?.do;
  if (typeof name !== 'string' || !Object.hasOwn(DO, name)) throw new TypeError(`do has to be one of ${Object.keys(DO).join(', ')}`);
  return DO[name](question, workdays);
}

const DO = {
  add(q) {
    const start = dateOf(q, 'date');
    const months = whole(q, 'years', 0) * 12 + whole(q, 'months', 0);
    const day = addMonths(start, months, q.endOfMonth === true) + whole(q, 'weeks', 0) * 7 + whole(q, 'days', 0);
    return described(day);
  },

  addBusinessDays(q, workdays) {
    return described(workdays.add(dateOf(q, 'date'), whole(q, 'days')));
  },

  businessDays(q, workdays) {
    const [from, to] = [dateOf(q, 'from'), dateOf(q, 'to')];
    if (Math.abs(to - from) > MAX_SPAN) throw new RangeError('from and to are more than 400 years apart');
    const extra = q.inclusive === true ? 1 : 0;
    const days = to >= from ? workdays.count(from, to + extra) : -workdays.count(to + (1 - extra), from + 1);
    return { days: days === 0 ? 0 : days };
  },

  isBusinessDay(q, workdays) {
    const reason = workdays.reason(dateOf(q, 'date'));
    return { businessDay: reason === null, reason };
  },

  ends(q, workdays) {
    const { year, month } = civil(dateOf(q, 'date'));
    const first = ordinal(year, month, 1);
    const last = ordinal(year, month, daysIn(year, month));
    const quarter = Math.ceil(month / 3) * 3;
    let firstBusinessDay = first;
    while (firstBusinessDay <= last && workdays.reason(firstBusinessDay) !== null) firstBusinessDay++;
    let lastBusinessDay = last;
    while (lastBusinessDay >= first && workdays.reason(lastBusinessDay) !== null) lastBusinessDay--;
    return {
      month: iso(last),
      quarter: iso(ordinal(year, quarter, daysIn(year, quarter))),
      year: iso(ordinal(year, 12, 31)),
      monthStart: iso(first),
      daysInMonth: last - first + 1,
      firstBusinessDay: firstBusinessDay <= last ? iso(firstBusinessDay) : null,
      lastBusinessDay: lastBusinessDay >= first ? iso(lastBusinessDay) : null,
    };
  },

  week(q) {
    const day = dateOf(q, 'date');
    const weekday = weekdayOf(day);
    const { year } = civil(day - weekday + 4); // the year of its Thursday
    const number = Math.floor((day - weekday + 4 - ordinal(year, 1, 1)) / 7) + 1;
    return {
      week: `${four(year)}-W${two(number)}`, year, number, weekday, name: NAMES[weekday - 1],
      monday: iso(day - weekday + 1), sunday: iso(day - weekday + 7), dayOfYear: day - ordinal(civil(day).year, 1, 1) + 1,
    };
  },

  weekToDate(q) {
    const m = /^(\d{4})-?W(\d{2})$/.exec(q.week ?? '');
    const weekday = whole(q, 'weekday', 1);
    if (!m || weekday < 1 || weekday > 7) throw new TypeError('week has to be such as 2025-W01, and weekday a number from 1 (Monday) to 7');
    const year = Number(m[1]);
    const jan4 = ordinal(year, 1, 4); // always in week 1
    const monday = jan4 - weekdayOf(jan4) + 1 + (Number(m[2]) - 1) * 7;
    if (Number(m[2]) < 1 || civil(monday + 3).year !== year) throw new RangeError(`the year ${year} has no week ${m[2]}`);
    return described(monday + weekday - 1);
  },

  between(q) {
    const [from, to] = [dateOf(q, 'from'), dateOf(q, 'to')];
    const sign = to < from ? -1 : 1;
    const [low, high] = sign < 0 ? [to, from] : [from, to];
    const a = civil(low);
    const b = civil(high);
    let months = (b.year - a.year) * 12 + b.month - a.month;
    if (addMonths(low, months, false) > high) months--;
    const rest = high - addMonths(low, months, false);
    const years = Math.floor(months / 12);
    const parts = [[years, 'Y'], [months % 12, 'M'], [rest, 'D']].filter(([n]) => n > 0).map(([n, unit]) => n + unit).join('');
    const signed = (n) => (n === 0 ? 0 : sign * n);
    return {
      days: to - from, weeks: signed(Math.floor((high - low) / 7)), years: signed(years), months: signed(months % 12), rest: signed(rest),
      iso: parts === '' ? 'P0D' : `${sign < 0 ? '-' : ''}P${parts}`,
    };
  },

  duration(q) {
    const ms = instantOf(q, 'to') - instantOf(q, 'from');
    const sign = ms < 0 ? '-' : '';
    const seconds = Math.abs(ms) / 1000;
    const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.round((seconds % 60) * 1000) / 1000];
    const text = `${h ? `${h}H` : ''}${m ? `${m}M` : ''}${s ? `${s}S` : ''}`;
    return { seconds: ms / 1000, hours: ms / 3_600_000, iso: text === '' ? 'PT0S' : `${sign}PT${text}` };
  },

  toZone(q) {
    return inZone(instantOf(q, 'instant'), zoneOf(q));
  },

  fromZone(q) {
    const zone = zoneOf(q);
    const { ms, kind } = resolve(localOf(q.local), zone, q.prefer);
    const { instant, local, offset } = inZone(ms, zone);
    return { instant, local, offset, kind };
  },

  addDuration(q) {
    const zone = zoneOf(q);
    const start = instantOf(q, 'instant');
    const d = durationOf(q.duration);
    let ms = start;
    if (d.months !== 0 || d.days !== 0) {
      const local = start + zone.offset(start);
      const day = Math.floor(local / DAY_MS);
      const moved = addMonths(day + EPOCH, d.months, false) + d.days;
      civil(moved);
      ms = resolve((moved - EPOCH) * DAY_MS + (local - day * DAY_MS), zone, q.prefer).ms;
    }
    const { instant, local, offset } = inZone(ms + d.ms, zone);
    return { instant, local, offset };
  },

  parse(q) {
    return described(dateOf(q, 'text'));
  },
};

// ---- Dates: a day is its number, from 1 for 0001-01-01 on

const LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const isLeap = (year) => year % 400 === 0 || (year % 4 === 0 && year % 100 !== 0);
const daysIn = (year, month) => (month === 2 && isLeap(year) ? 29 : LENGTHS[month - 1]);
const BEFORE = LENGTHS.map((_, i) => LENGTHS.slice(0, i).reduce((a, b) => a + b, 0));

function ordinal(year, month, day) {
  const y = year - 1;
  return y * 365 + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + BEFORE[month - 1] + (month > 2 && isLeap(year) ? 1 : 0) + day;
}

const EPOCH = ordinal(1970, 1, 1);
const LAST = ordinal(9999, 12, 31);

function civil(day) {
  if (!(day >= 1 && day <= LAST)) throw new RangeError('the result is not in the years 1 to 9999');
  let year = Math.floor(day / 365.2425) + 1;
  while (ordinal(year, 1, 1) > day) year--;
  while (ordinal(year + 1, 1, 1) <= day) year++;
  let rest = day - ordinal(year, 1, 1);
  let month = 1;
  while (rest >= daysIn(year, month)) rest -= daysIn(year, month++);
  return { year, month, day: rest + 1 };
}

const weekdayOf = (day) => ((day - 1) % 7) + 1; // 0001-01-01 was a Monday
const two = (n) => String(n).padStart(2, '0');
const four = (n) => String(n).padStart(4, '0');

function iso(day) {
  const c = civil(day);
  return `${four(c.year)}-${two(c.month)}-${two(c.day)}`;
}

const described = (day) => ({ date: iso(day), weekday: NAMES[weekdayOf(day) - 1] });

function addMonths(day, months, keepEnd) {
  const c = civil(day);
  const index = c.year * 12 + c.month - 1 + months;
  const [year, month] = [Math.floor(index / 12), (((index % 12) + 12) % 12) + 1];
  if (year < 1 || year > 9999) throw new RangeError('the result is not in the years 1 to 9999');
  const last = daysIn(year, month);
  return ordinal(year, month, keepEnd && c.day === daysIn(c.year, c.month) ? last : Math.min(c.day, last));
}

// dateOf reads the date in a field of a question.
function dateOf(q, name) {
  const text = q[name];
  const wrong = (why) => new TypeError(`${name} ${JSON.stringify(text) ?? 'is missing'}${why}: give a date such as 2024-12-31 or 31.12.2024`);
  if (typeof text !== 'string') throw wrong('');
  const trimmed = text.trim();
  let parts;
  let m;
  if ((m = /^(\d{4})-(\d{2})-(\d{2})$/.exec(trimmed))) parts = [m[1], m[2], m[3]];
  else if ((m = /^(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4}|\d{2})?$/.exec(trimmed))) parts = [m[3], m[2], m[1]];
  else if ((m = /^(\d{1,2})\/(\d{1,2})\/(\d{4})$/.exec(trimmed))) {
    if (q.order !== 'dmy' && q.order !== 'mdy') throw new TypeError(`${name} ${JSON.stringify(text)} can be read in two ways: give order, "dmy" or "mdy"`);
    parts = q.order === 'dmy' ? [m[3], m[2], m[1]] : [m[3], m[1], m[2]];
  } else if (/^\d{4}-\d{2}-\d{2}[T ]/.test(trimmed)) throw wrong(' has a time: ask toZone for its date in a zone');
  else throw wrong(' is no date');
  let [year, month, day] = parts.map((part) => (part === undefined ? undefined : Number(part)));
  if (year === undefined) {
    if (!Number.isInteger(q.year)) throw new TypeError(`${name} ${JSON.stringify(text)} has no year: give year`);
    year = q.year;
  } else if (parts[0].length === 2) year += year < 70 ? 2000 : 1900;
  if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) throw wrong(' is no day of the calendar');
  return ordinal(year, month, day);
}

function whole(q, name, otherwise) {
  const n = q[name] ?? otherwise;
  if (!Number.isInteger(n) || Math.abs(n) > 10_000_000) throw new TypeError(`${name} has to be a whole number`);
  return n;
}

// ---- Business days

class Workdays {
  #free; // by ISO number of the weekday
  #perWeek;
  #fixed = new Map(); // year -> days
  #yearly = []; // [month, day]
  #names = new Map(); // day, or month and day -> name
  #years = new Map(); // year -> sorted days off that are no weekend

  constructor({ holidays = [], weekend = [6, 7] }) {
    if (!Array.isArray(weekend) || weekend.some((n) => !Number.isInteger(n) || n < 1 || n > 7) || new Set(weekend).size > 6) {
      throw new TypeError('weekend has to be a list of ISO numbers of weekdays, such as [6, 7], and leave a day to work');
    }
    this.#free = new Set(weekend);
    this.#perWeek = 7 - this.#free.size;
    if (!Array.isArray(holidays)) throw new TypeError('holidays has to be a list of dates, such as ["2024-12-24", "12-25"]');
    holidays.forEach((holiday, i) => {
      const text = typeof holiday === 'string' ? holiday : holiday?.date;
      const name = typeof holiday?.name === 'string' ? holiday.name : 'holiday';
      const m = /^(?:--)?(\d{2})-(\d{2})$/.exec(text ?? '');
      if (m) {
        const [month, day] = [Number(m[1]), Number(m[2])];
        if (month < 1 || month > 12 || day < 1 || day > daysIn(2000, month)) throw new TypeError(`holidays[${i}] is no day of the calendar`);
        this.#yearly.push([month, day]);
        this.#names.set(`${month}-${day}`, name);
        return;
      }
      const day = dateOf({ [`holidays[${i}]`]: text }, `holidays[${i}]`);
      const { year } = civil(day);
      if (!this.#fixed.has(year)) this.#fixed.set(year, []);
      this.#fixed.get(year).push(day);
      this.#names.set(day, name);
    });
  }

  #of(year) {
    let days = this.#years.get(year);
    if (days) return days;
    const all = new Set(this.#fixed.get(year) ?? []);
    for (const [month, day] of this.#yearly) if (day <= daysIn(year, month)) all.add(ordinal(year, month, day));
    days = [...all].filter((day) => !this.#free.has(weekdayOf(day))).sort((a, b) => a - b);
    this.#years.set(year, days);
    return days;
  }

  // reason says why a day is no business day, or returns null.
  reason(day) {
    const { year, month, day: dayOfMonth } = civil(day);
    if (this.#free.has(weekdayOf(day))) return 'weekend';
    if (!this.#of(year).includes(day)) return null;
    return this.#names.get(day) ?? this.#names.get(`${month}-${dayOfMonth}`) ?? 'holiday';
  }

  // count returns the number of business days from a day to the day before another.
  count(from, to) {
    if (to <= from) return 0;
    const weeks = Math.floor((to - from) / 7);
    let days = weeks * this.#perWeek;
    for (let day = from + weeks * 7; day < to; day++) if (!this.#free.has(weekdayOf(day))) days++;
    for (let { year } = civil(from), last = civil(to - 1).year; year <= last; year++) {
      for (const day of this.#of(year)) if (day >= from && day < to) days--;
    }
    return days;
  }

  add(start, n) {
    if (Math.abs(n) > MAX_BUSINESS_DAYS) throw new RangeError(`days has to be at most ${MAX_BUSINESS_DAYS}`);
    let day = start;
    if (n === 0) {
      while (this.reason(day) !== null) day++;
      return day;
    }
    const sign = Math.sign(n);
    for (let left = Math.abs(n); left > 0;) {
      // Whole weeks are passed at once, as long as more than their days are left.
      const weeks = Math.floor((left - 1) / this.#perWeek);
      if (weeks > 0) {
        const next = day + sign * weeks * 7;
        civil(next);
        left -= sign > 0 ? this.count(day + 1, next + 1) : this.count(next, day);
        day = next;
      } else {
        day += sign;
        if (this.reason(day) === null) left--;
      }
    }
    return day;
  }
}

// ---- Times

function instantOf(q, name) {
  const value = q[name];
  if (typeof value === 'number' && Math.abs(value) < 2.5e14) return Math.trunc(value);
  const m = typeof value === 'string' ? /^(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)\s?(Z|[+-]\d{2}:?\d{2})$/i.exec(value.trim()) : null;
  if (!m) throw new TypeError(`${name} ${JSON.stringify(value) ?? 'is missing'}: give an instant with its offset, such as 2024-12-31T10:00:00Z or 2024-12-31T10:00:00+01:00`);
  const zone = m[2].toUpperCase();
  const offset = zone === 'Z' ? 0 : (zone[0] === '-' ? -1 : 1) * (Number(zone.slice(1, 3)) * 60 + Number(zone.slice(-2))) * 60_000;
  return localOf(m[1]) - offset;
}

// localOf reads a local time as if it were in UTC, in milliseconds since 1970.
function localOf(text) {
  const m = typeof text === 'string' ? /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?$/.exec(text.trim()) : null;
  if (!m) throw new TypeError(`local ${JSON.stringify(text) ?? 'is missing'}: give a local time such as 2024-12-31T10:00, without an offset`);
  const day = dateOf({ local: `${m[1]}-${m[2]}-${m[3]}` }, 'local');
  const [h, min, s] = [Number(m[4] ?? 0), Number(m[5] ?? 0), Number(m[6] ?? 0)];
  if (h > 23 || min > 59 || s > 59) throw new TypeError(`local ${JSON.stringify(text)} is no time of a day`);
  return (day - EPOCH) * DAY_MS + ((h * 60 + min) * 60 + s) * 1000 + Math.trunc(Number(`0.${m[7] ?? 0}`) * 1000);
}

const zones = new Map();

class Zone {
  #format;
  #known = new Map(); // quarter of an hour -> offset

  constructor(name) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone: name, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric',
    });
  }

  // offset returns the milliseconds that local time is ahead of UTC.
  offset(ms) {
    civil(Math.floor(ms / DAY_MS) + EPOCH);
    // Since 1970 zones change at full quarters of an hour.
    const quarter = ms >= 0 ? Math.floor(ms / 900_000) : null;
    if (quarter !== null && this.#known.has(quarter)) return this.#known.get(quarter);
    const parts = {};
    for (const { type, value } of this.#format.formatToParts(ms)) parts[type] = value;
    const [year, month, day, h, m, s] = ['year', 'month', 'day', 'hour', 'minute', 'second'].map((name) => Number(parts[name]));
    const local = (ordinal(year, month, day) - EPOCH) * DAY_MS + ((h * 60 + m) * 60 + s) * 1000;
    const offset = local - Math.floor(ms / 1000) * 1000;
    if (quarter !== null && this.#known.size < 100_000) this.#known.set(quarter, offset);
    return offset;
  }
}

function zoneOf({ zone }) {
  if (typeof zone !== 'string' || zone === '') throw new TypeError('zone is missing: give a name such as Europe/Berlin, or UTC');
  if (!zones.has(zone)) {
    try {
      zones.set(zone, new Zone(zone));
    } catch (error) {
      throw new RangeError(`there is no time zone ${JSON.stringify(zone)}: give a name such as Europe/Berlin, or UTC`, { cause: error });
    }
  }
  return zones.get(zone);
}

// resolve returns the instant of a local time: {ms, kind}.
function resolve(local, zone, prefer = 'compatible') {
  if (!['compatible', 'earlier', 'later', 'reject'].includes(prefer)) throw new TypeError('prefer has to be one of compatible, earlier, later, reject');
  const [before, after] = [zone.offset(local - DAY_MS), zone.offset(local + DAY_MS)];
  const found = [...new Set([before, after])].map((offset) => local - offset).filter((ms) => zone.offset(ms) === local - ms).sort((a, b) => a - b);
  if (found.length === 1) return { ms: found[0], kind: 'unique' };
  if (prefer === 'reject') throw new RangeError(`the local time ${found.length === 0 ? 'does not exist' : 'comes twice'}, because the clocks change: give prefer`);
  if (found.length === 2) return { ms: prefer === 'later' ? found[1] : found[0], kind: 'overlap' };
  return { ms: local - (prefer === 'earlier' ? after : before), kind: 'gap' };
}

function inZone(ms, zone) {
  const offset = zone.offset(ms);
  const text = timeText(ms + offset);
  const minutes = Math.round(Math.abs(offset) / 60_000);
  return { local: text.endsWith('.000') ? text.slice(0, -4) : text, offset: `${offset < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`, instant: `${timeText(ms)}Z` };
}

function timeText(ms) {
  const day = Math.floor(ms / DAY_MS);
  const rest = ms - day * DAY_MS;
  const s = Math.floor(rest / 1000);
  return `${iso(day + EPOCH)}T${two(Math.floor(s / 3600))}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}.${String(rest % 1000).padStart(3, '0')}`;
}

// durationOf reads an ISO duration: {months, days, ms}.
function durationOf(text) {
  const m = typeof text === 'string' ? /^([+-])?P(?=.)(?:(\d{1,5})Y)?(?:(\d{1,6})M)?(?:(\d{1,6})W)?(?:(\d{1,7})D)?(?:T(?=.)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,12})(?:[.,](\d{1,3}))?S)?)?$/.exec(text) : null;
  if (!m) throw new TypeError(`duration ${JSON.stringify(text) ?? 'is missing'}: give an ISO duration such as P1M2DT3H or -PT30M`);
  const n = (i) => Number(m[i] ?? 0);
  const sign = m[1] === '-' ? -1 : 1;
  const seconds = (n(6) * 60 + n(7)) * 60 + n(8);
  return { months: sign * (n(2) * 12 + n(3)), days: sign * (n(4) * 7 + n(5)), ms: sign * (seconds * 1000 + Number((m[9] ?? '').padEnd(3, '0'))) };
}
