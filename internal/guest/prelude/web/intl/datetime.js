// Intl.DateTimeFormat: Gregorian dates, and years of the Buddhist calendar, in any zone, by patterns read from CLDR (see locales.js for their letters).
import {
  create, dateDay, dateGetTime, dateHours, dateMilliseconds, dateMinutes, dateMonth, dateSeconds, dateWeekday, dateYear, floor, indexOf,
  NativeDate, padStart, push, regExpExec, strIndexOf, strSlice, toNumber, toStr,
} from '../../intrinsics.js';
import { replace, test } from '../../text.js';
import { absent, choice, digitsIn, numberingOf, plain, resolve, service, whole } from './locale.js';
import { zoneName, zonesOf } from './zones.js';

const WIDTHS = ['narrow', 'short', 'long'];
const NUMERIC = ['2-digit', 'numeric'];
const MONTHS = ['2-digit', 'numeric', 'narrow', 'short', 'long'];
const DATE_FIELDS = ['weekday', 'year', 'month', 'day'];
const TIME_FIELDS = ['dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits'];
const STYLES = ['full', 'long', 'medium', 'short'];

// readOptions reads what a formatter needs; need and add are ECMA-402's required and defaults.
function readOptions(options, need, add) {
  const o = create(null);
  o.hour12 = options?.hour12 === undefined ? undefined : Boolean(options.hour12);
  o.hourCycle = choice(options, 'hourCycle', ['h11', 'h12', 'h23', 'h24']);
  o.timeZone = options?.timeZone;
  const read = (name, values) => { o[name] = choice(options, name, values); };
  read('weekday', WIDTHS);
  read('year', NUMERIC);
  read('month', MONTHS);
  read('day', NUMERIC);
  read('dayPeriod', WIDTHS);
  for (let i = 1; i < 4; i++) read(TIME_FIELDS[i], NUMERIC);
  o.fractionalSecondDigits = whole(options, 'fractionalSecondDigits', 1, 3, undefined);
  read('timeZoneName', ['short', 'long', 'shortOffset', 'longOffset', 'shortGeneric', 'longGeneric']);
  read('dateStyle', STYLES);
  read('timeStyle', STYLES);
  o.calendar = options?.calendar === undefined ? 'gregory' : toStr(options.calendar);
  if (o.calendar !== 'buddhist') plain('calendar', options, 'gregory');
  o.era = choice(options, 'era', WIDTHS);
  plain('dayPeriod', options);
  const has = (names) => {
    for (let i = 0; i < names.length; i++) if (o[names[i]] !== undefined) return names[i];
    return undefined;
  };
  if (o.dateStyle || o.timeStyle) {
    if (o.calendar === 'buddhist') withEra(o);
    const field = has(DATE_FIELDS) ?? has(TIME_FIELDS) ?? has(['timeZoneName']);
    const style = o.dateStyle ? 'dateStyle' : 'timeStyle';
    if (field) throw new TypeError(`Can't set option ${field} when ${style} is used`);
    if (need === 'date' && o.timeStyle) throw new TypeError('Invalid option : timeStyle');
    if (need === 'time' && o.dateStyle) throw new TypeError('Invalid option : dateStyle');
    return o;
  }
  const present = (need !== 'time' && has(DATE_FIELDS)) || (need !== 'date' && has(TIME_FIELDS));
  if (!present && add !== 'time') o.year = o.month = o.day = 'numeric';
  if (o.era || o.calendar === 'buddhist') withEra(o);
  if (!present && add !== 'date') o.hour = o.minute = o.second = 'numeric';
  return o;
}

// withEra refuses what the patterns with an era do not have.
function withEra(o) {
  const has = o.year === 'numeric' && (o.day === undefined || o.month) && o.month !== 'narrow';
  if (!has || o.weekday || o.hour || o.minute || o.second || o.timeZoneName || o.month === '2-digit' || o.day === '2-digit') {
    throw new RangeError("Intl here has eras, and the Buddhist calendar, with the year 'numeric' and a month and a day that are not '2-digit' only");
  }
}

// withEraAt is the place of such a set of fields in the lists.
const withEraAt = (o) => (o.month === 'long' ? 5 : o.month === 'short' ? 3 : o.month ? 1 : 0) + (o.day ? 1 : 0);

const CYCLE = 12622780800000; // 400 years of the calendar in milliseconds: whole weeks

// civil splits a time into date and time at an offset in seconds. Where that leads beyond the times that a Date has, it counts 400 years off.
function civil(ms, offset) {
  const cycles = ms > 8e15 ? 1 : ms < -8e15 ? -1 : 0;
  const date = new NativeDate(ms + offset * 1000 - cycles * CYCLE);
  return {
    year: dateYear(date) + cycles * 400, month: dateMonth(date) + 1, day: dateDay(date), weekday: dateWeekday(date),
    hour: dateHours(date), minute: dateMinutes(date), second: dateSeconds(date), ms: dateMilliseconds(date),
  };
}

// exactWidths says whether day and month are numbers of which at least one is asked for in two digits.
const exactWidths = (o) => !o.dateStyle && !o.weekday && (o.month === 'numeric' || o.month === '2-digit') &&
  (o.day ? o.day === '2-digit' || o.month === '2-digit' : o.year !== undefined && o.month === '2-digit');

// unusual refuses sets of fields for which locales have no patterns and CLDR makes some up.
function unusual(o) {
  const fields = o.year === '2-digit' && !o.month && (o.day || o.weekday) ? 'year without month'
    : o.month === '2-digit' && o.weekday && !o.day ? 'weekday and month without day'
      : o.hour && o.second && !o.minute ? 'second without minute' : '';
  if (fields !== '') throw new RangeError(`Intl here has no format for ${fields}: ask for the fields between, or join the texts of two formatters`);
}

// datePattern finds the pattern of the date fields, and which join to the time goes with it.
function datePattern(locale, o) {
  if (o.dateStyle) {
    const at = indexOf(STYLES, o.dateStyle);
    return [locale.list('style')[at], at];
  }
  if (o.calendar === 'buddhist') return [locale.list('buddhist')[withEraAt(o) + (o.era ? 7 : 0)], 7];
  if (o.era) return [locale.list('era')[withEraAt(o)], 7];
  const bits = (o.weekday ? 1 : 0) | (o.day ? 2 : 0) | (o.month ? 4 : 0) | (o.year ? 8 : 0);
  if (bits === 0) return ['', 7];
  if (!o.month || o.month === 'numeric' || o.month === '2-digit') {
    if (exactWidths(o)) {
      if (!o.day) return [locale.list('mixed')[6], 7];
      const at = o.day !== '2-digit' ? 1 : o.month === '2-digit' ? 2 : 0;
      return [locale.list('mixed')[at + (o.year === '2-digit' ? 7 : o.year ? 3 : 0)], 7];
    }
    const own = o.weekday === 'long' ? locale.list('numericDay')[bits - 1] : '';
    return [own || locale.list('numeric')[bits - 1], bits === 1 ? 8 : 7];
  }
  const at = (bits & 3) | ((bits & 8) >> 1); // the lists have only the sets with a month
  const short = locale.list('short')[at];
  const long = locale.list('long')[at];
  const day = o.weekday === 'long' ? locale.list('longDay')[at] : '';
  if (o.month !== 'long') {
    const wide = o.weekday === 'long' ? locale.list('shortDay')[at] : '';
    return [wide || short, o.month === 'narrow' ? 7 : 6];
  }
  return [day || long || short, o.weekday ? 4 : 5];
}

function timePattern(locale, o, cycle) {
  const style = o.timeStyle;
  // A fraction brings its seconds along, where there are minutes.
  const second = style ? style !== 'short' : o.second || (o.minute && o.fractionalSecondDigits);
  if (style || o.hour) {
    const at = second ? 2 : style || o.minute ? 1 : 0;
    return locale.list('time')[at + (cycle === 'h23' || cycle === 'h24' ? 3 : 0)];
  }
  if (o.minute && second) return locale.list('time')[6];
  return o.minute ? 'm' : second ? 's' : o.fractionalSecondDigits ? 'f' : '';
}

function cycleOf(locale, o) {
  if (o.hour12 !== undefined) { // as in Node.js 20: the cycle that begins as the locale's own does
    const own = locale.text('cycle') === 'h12';
    return o.hour12 ? (own ? 'h12' : 'h11') : own ? 'h24' : 'h23';
  }
  return o.hourCycle ?? locale.hc ?? locale.text('cycle');
}

// A pattern as [letter or literal text]: literals begin with "'".
function tokens(pattern) {
  const out = [];
  for (let i = 0; i < pattern.length; i++) {
    const c = pattern[i];
    if (c === "'") {
      let text = "'";
      while (pattern[++i] !== "'") text += pattern[i];
      push(out, text);
    } else push(out, test(/[a-zA-Z]/, c) ? c : `'${c}`);
  }
  return out;
}

const TYPES = {
  __proto__: null, G: 'era', y: 'year', Y: 'year', n: 'month', N: 'month', M: 'month', L: 'month', d: 'day', D: 'day', E: 'weekday',
  C: 'weekday', h: 'hour', H: 'hour', m: 'minute', P: 'minute', s: 'second', S: 'second', f: 'fractionalSecond',
  a: 'dayPeriod', B: 'dayPeriod', z: 'timeZoneName',
};

// dateTimeFormats makes the constructor and the formatter of the Date methods over ctx's clock and zones.
export function dateTimeFormats(ctx) {
  const zoneOf = zonesOf(ctx);

  class DateTimeFormat {
    #locale;
    #o;
    #zone;
    #cycle;
    #tokens;
    #wide; // the pattern's two-digit days and months hold
    #wideHour;
    #exact; // the pattern says which numbers have two digits
    #bound;

    constructor(locales, options, need = 'any', add = 'date') {
      if (options === null) throw new TypeError('Cannot convert null to an options object');
      this.#locale = resolve(locales, options);
      this.#o = readOptions(options, need, add);
      this.#o.numberingSystem = numberingOf(this.#locale, options);
      this.#zone = zoneOf(this.#o.timeZone);
      const o = this.#o;
      this.#cycle = o.hour || o.timeStyle ? cycleOf(this.#locale, o) : undefined;
      // As in ICU a pattern's own widths hold where the fields are asked for as in its skeleton; else each field's own.
      this.#wide = o.weekday !== undefined || (o.month !== '2-digit' && o.day !== '2-digit');
      const plain = o.hour !== '2-digit' && o.minute !== '2-digit' && o.second !== '2-digit' &&
        !(o.timeZoneName && (o.second || o.fractionalSecondDigits));
      const weekdayOnly = o.weekday !== undefined && !o.day && !o.month && !o.year;
      this.#wideHour = plain || weekdayOnly || this.#cycle !== this.#locale.text('cycle');
      unusual(o);
      this.#exact = exactWidths(o);
      const found = datePattern(this.#locale, o);
      let date = found[0];
      let time = timePattern(this.#locale, o, this.#cycle);
      if (o.fractionalSecondDigits) time = fraction(time, this.#locale.list('number')[0]);
      const zone = o.timeZoneName ?? { __proto__: null, full: 'long', long: 'short' }[o.timeStyle];
      const own = o.timeStyle && this.#cycle === this.#locale.text('cycle');
      this.#o.zoneStyle = zone;
      if (own) time = this.#locale.list('timeStyle')[indexOf(STYLES, o.timeStyle)];
      else if (zone) time += time ? ' z' : 'z';
      if (date === 'C' && time) date = 'E';
      const between = date && time ? `'${this.#locale.list('join')[found[1]]}'` : '';
      this.#tokens = tokens(date + between + time);
    }

    get format() {
      return (this.#bound ??= (date) => this.#text(date));
    }

    // #text has an ordinary space where CLDR, and formatToParts, have a narrow one that does not break: V8 does so because
    // too much reads times back.
    #text(date) {
      const parts = this.formatToParts(date);
      let out = '';
      for (let i = 0; i < parts.length; i++) out += parts[i].value;
      return replace(/\u202f/g, out, () => ' ');
    }

    formatToParts(date) {
      const ms = date === undefined ? floor(ctx.now() / 1000) : timeOf(date);
      const entry = this.#zone.at(floor(ms / 1000));
      const t = civil(ms, entry[1]);
      const parts = [];
      for (let i = 0; i < this.#tokens.length; i++) {
        const token = this.#tokens[i];
        const last = parts[parts.length - 1];
        if (token[0] !== "'") push(parts, { type: TYPES[token], value: this.#shown(token, this.#field(token, t, entry)) });
        else if (last?.type === 'literal') last.value += strSlice(token, 1);
        else push(parts, { type: 'literal', value: strSlice(token, 1) });
      }
      return parts;
    }

    // #shown writes numbers in the numbering system; names keep their digits.
    #shown(token, text) {
      return strIndexOf('GMLECaB', token) >= 0 ? text : digitsIn(this.#o.numberingSystem, text);
    }

    #field(token, t, entry) {
      const o = this.#o;
      const two = (n, always) => (always ? padStart(toStr(n), 2, '0') : toStr(n));
      // Without an era, as ICU has it.
      const year = o.calendar === 'buddhist' ? t.year + 543 : t.year > 0 ? t.year : 1 - t.year;
      switch (token) {
        case 'y': return o.year === '2-digit' ? two(year % 100, true) : toStr(year);
        case 'Y': return two(year % 100, true);
        case 'n': return two(t.month, o.month === '2-digit' && !this.#exact);
        case 'N': return two(t.month, this.#exact || this.#wide || o.month === '2-digit');
        case 'd': return two(t.day, o.day === '2-digit' && !this.#exact);
        case 'D': return two(t.day, this.#exact || this.#wide || o.day === '2-digit');
        case 'M': return this.#name('month', t.month - 1, 12, false);
        case 'L': return this.#name('month', t.month - 1, 12, true);
        case 'E': return this.#name('weekday', t.weekday, 7, false);
        case 'C': return this.#name('weekday', t.weekday, 7, true);
        case 'h': return two(this.#hour(t.hour), o.hour === '2-digit');
        case 'H': return two(this.#hour(t.hour), this.#wideHour || o.hour === '2-digit');
        case 'm': return toStr(t.minute);
        case 'P': return two(t.minute, true);
        case 's': return toStr(t.second);
        case 'S': return two(t.second, true);
        case 'f': return strSlice(padStart(toStr(t.ms), 3, '0'), 0, o.fractionalSecondDigits);
        case 'G': if (o.calendar === 'buddhist') return this.#locale.list('be')[o.era ? 7 + indexOf(ERAS, o.era) : withEraAt(o)];
          return this.#locale.list('eras')[indexOf(ERAS, o.era) * 2 + (t.year > 0 ? 1 : 0)];
        case 'B': return this.#locale.list('period')[t.hour];
        case 'a': {
          const words = this.#locale.list('half'); // of the two halves, or of the hours
          return words[words.length > 2 ? t.hour : t.hour < 12 ? 0 : 1];
        }
        default: return zoneName(this.#locale, this.#zone, entry, o.zoneStyle);
      }
    }

    #hour(hour) {
      switch (this.#cycle) {
        case 'h11': return hour % 12;
        case 'h12': return hour % 12 || 12;
        case 'h24': return hour || 24;
        default: return hour;
      }
    }

    // #name picks a month or weekday; lists with a second half have there how a name stands alone.
    #name(field, index, count, alone) {
      const o = this.#o;
      let width = field === 'month' ? o.month : o.weekday;
      if (o.dateStyle) width = o.dateStyle === 'medium' ? 'short' : 'long';
      const names = field === 'month'
        ? { __proto__: null, long: 'months', short: 'mon', narrow: 'm' }
        : { __proto__: null, long: 'days', short: 'day', narrow: 'e' };
      const list = this.#locale.list(names[width]);
      return list[alone && list.length > count ? index + count : index];
    }

    // formatRange writes the two sides in full, as all locales do where a date is numbers only.
    formatRange(from, to) {
      const start = this.#text(needed(from));
      const end = this.#text(needed(to));
      if (start === end) return start;
      const o = this.#o;
      const plainDate = o.year === 'numeric' && o.month === 'numeric' && o.day === 'numeric' && !o.weekday && !o.hour && !o.timeZoneName;
      if (!plainDate || this.#locale.language !== 'en') absent('Intl.DateTimeFormat.prototype.formatRange with these options');
      return `${start}\u2009\u2013\u2009${end}`;
    }

    formatRangeToParts() { return absent('Intl.DateTimeFormat.prototype.formatRangeToParts'); }

    resolvedOptions() {
      const o = this.#o;
      const out = {
        locale: this.#locale.name, calendar: o.calendar, numberingSystem: o.numberingSystem, timeZone: this.#zone.name,
      };
      if (this.#cycle) {
        out.hourCycle = this.#cycle;
        out.hour12 = this.#cycle === 'h11' || this.#cycle === 'h12';
      }
      if (!o.dateStyle && !o.timeStyle) {
        for (let i = 0; i < FIELDS.length; i++) if (o[FIELDS[i]] !== undefined) out[FIELDS[i]] = this.#resolved(FIELDS[i]);
      }
      if (o.dateStyle) out.dateStyle = o.dateStyle;
      if (o.timeStyle) out.timeStyle = o.timeStyle;
      return out;
    }

    // #resolved is a field's width as the pattern shows it: minutes beside hours have two digits, whatever was asked.
    #resolved(field) {
      const has = (letter) => indexOf(this.#tokens, letter) >= 0;
      if (field === 'day' ? has('D') && this.#wide : field === 'month' ? has('N') && this.#wide
        : field === 'hour' ? has('H') && this.#wideHour : field === 'minute' ? has('P') : field === 'second' && has('S')) {
        return '2-digit';
      }
      if (field === 'minute' || field === 'second') return 'numeric';
      return this.#o[field];
    }
  }

  const IntlDateTimeFormat = service(DateTimeFormat, 'DateTimeFormat', true);
  // The Date methods differ in what they require and add; internal because the constructor takes two arguments.
  return { IntlDateTimeFormat, make: (locales, options, need, add) => new DateTimeFormat(locales, options, need, add) };
}

const ERAS = ['short', 'long', 'narrow'];
const FIELDS = ['weekday', 'era', 'year', 'month', 'day', 'dayPeriod', 'hour', 'minute', 'second', 'fractionalSecondDigits',
  'timeZoneName'];

// fraction puts the fraction of a second behind the seconds of a pattern; text in quotes is none.
const fraction = (time, decimal) => {
  const m = regExpExec(/^((?:'[^']*'|[^'])*)([sS])((?:'[^']*'|[^'])*)$/, time);
  return m ? `${m[1]}${m[2]}${decimal}f${m[3]}` : time === 'f' ? time : `${time}${decimal}f`;
};

function needed(date) {
  if (date === undefined) throw new TypeError('startDate or endDate cannot be undefined');
  return date;
}

export function timeOf(date) {
  let ms;
  try {
    ms = dateGetTime(date);
  } catch {
    ms = toNumber(date);
  }
  if (!(ms >= -8.64e15 && ms <= 8.64e15)) throw new RangeError('Invalid time value');
  return ms < 0 ? -floor(-ms) : floor(ms);
}
