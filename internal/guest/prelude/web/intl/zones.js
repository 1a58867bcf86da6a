// Time zones: the host has the data base, the guest asks once for each zone. UTC and offsets need no asking.
import {
  abs, floor, mapGet, mapSet, NativeMap, padStart, regExpExec, split, strIndexOf, strSlice, toLowerCase, toNumber, toStr,
} from '../../intrinsics.js';
import { test } from '../../text.js';

const UTC = { name: 'UTC', at: () => [0, 0, 'UTC', false] };
const UTC_NAMES = ' utc gmt etc/utc etc/gmt etc/uct etc/zulu uct zulu etc/universal universal gmt0 etc/gmt0 ';

// zonesOf makes the look-up: a zone is {name, at(seconds)}, at gives [from, offset in seconds, abbreviation, summer].
export function zonesOf(ctx) {
  const known = new NativeMap();
  return (value) => {
    if (value === undefined) return UTC;
    const text = toStr(value);
    const key = toLowerCase(text);
    if (strIndexOf(UTC_NAMES, ` ${key} `) >= 0) return UTC;
    let zone = mapGet(known, key);
    if (zone === undefined) {
      zone = offsetZone(text) ?? named(ctx, text);
      mapSet(known, key, zone);
    }
    return zone;
  };
}

function offsetZone(text) {
  const m = regExpExec(/^([+-])([01]\d|2[0-3])(?::?([0-5]\d))?$/, text);
  if (!m) return undefined;
  const seconds = (m[1] === '-' ? -1 : 1) * (toNumber(m[2]) * 3600 + toNumber(m[3] ?? 0) * 60);
  const entry = [0, seconds, '', false];
  return { name: `${seconds === 0 ? '+' : m[1]}${m[2]}:${m[3] ?? '00'}`, at: () => entry };
}

function named(ctx, text) {
  if (!test(/^[A-Za-z][\w+\-/]*$/, text)) throw new RangeError(`Invalid time zone specified: ${text}`);
  const { zone, transitions } = ctx.zone(text);
  const at = (seconds) => {
    let low = 0;
    for (let high = transitions.length; high - low > 1; ) {
      const middle = (low + high) >> 1;
      if (transitions[middle][0] <= seconds) low = middle;
      else high = middle;
    }
    return transitions[low];
  };
  return { name: zone, at };
}

// English names, by the abbreviation in the time zone data base, or by the zone where that is a number.
const LONG = '|EST!Eastern Standard|EDT!Eastern Daylight|CST!Central Standard|CDT!Central Daylight|MST!Mountain Standard' +
  '|MDT!Mountain Daylight|PST!Pacific Standard|PDT!Pacific Daylight|AKST!Alaska Standard|AKDT!Alaska Daylight' +
  '|HST!Hawaii-Aleutian Standard|AST!Atlantic Standard|ADT!Atlantic Daylight|NST!Newfoundland Standard' +
  '|NDT!Newfoundland Daylight|GMT!Greenwich Mean|BST!British Summer|WET!Western European Standard' +
  '|WEST!Western European Summer|CET!Central European Standard|CEST!Central European Summer' +
  '|EET!Eastern European Standard|EEST!Eastern European Summer|MSK!Moscow Standard|SAST!South Africa Standard|EAT!East Africa|WAT!West Africa' +
  '|CAT!Central Africa|JST!Japan Standard|KST!Korean Standard|HKT!Hong Kong Standard|PKT!Pakistan Standard' +
  '|WIB!Western Indonesia|WITA!Central Indonesia|WIT!Eastern Indonesia|AEST!Australian Eastern Standard' +
  '|AEDT!Australian Eastern Daylight|ACST!Australian Central Standard|ACDT!Australian Central Daylight' +
  '|AWST!Australian Western Standard|NZST!New Zealand Standard|NZDT!New Zealand Daylight|IDT!Israel Daylight' +
  '|Europe/Dublin IST!Irish Standard|Asia/Jerusalem IST!Israel Standard|IST!India Standard' +
  '|Asia/Shanghai CST!China Standard' +
  '|Asia/Taipei CST!Taiwan Standard|Asia/Manila PST!Philippine Standard|Asia/Singapore!Singapore Standard' +
  '|Asia/Dubai!Gulf Standard|America/Sao_Paulo!Brasilia Standard|America/Argentina/Buenos_Aires!Argentina Standard' +
  '|America/Bogota!Colombia Standard|America/Lima!Peru Standard|America/Santiago!Chile|America/Caracas!Venezuela' +
  '|Europe/Istanbul!T\u00fcrkiye Standard|Asia/Riyadh!Arabian Standard|Asia/Baghdad!Arabian Standard' +
  '|Asia/Kuwait!Arabian Standard|Asia/Qatar!Arabian Standard|Asia/Tehran!Iran Standard|Asia/Dhaka!Bangladesh Standard' +
  '|Asia/Bangkok!Indochina|Asia/Ho_Chi_Minh!Indochina|Asia/Kathmandu!Nepal|Asia/Kuala_Lumpur!Malaysia' +
  '|Asia/Tashkent!Uzbekistan Standard|UTC!Coordinated Universal|';

function longName(zone, entry) {
  const letters = test(/^[A-Z]/, entry[2]);
  const wanted = letters ? [`${zone.name} ${entry[2]}`, entry[2]] : [zone.name];
  for (let i = 0; i < wanted.length; i++) {
    const key = wanted[i];
    const at = strIndexOf(LONG, `|${key}!`);
    if (at < 0) continue;
    const from = at + key.length + 2;
    const text = strSlice(LONG, from, strIndexOf(LONG, '|', from));
    // Chile is the one zone without letters that has summer time.
    return text === 'Chile' ? `Chile ${entry[3] ? 'Summer' : 'Standard'} Time` : `${text} Time`;
  }
  return undefined;
}

// offsetName is GMT-5 or GMT-05:00, with the locale's words and minus sign.
function offsetName(locale, seconds, long) {
  const gmt = locale.text('gmt');
  const minutes = floor(abs(seconds) / 60);
  const hour = padStart(toStr(floor(minutes / 60)), long ? 2 : 1, '0');
  const minute = padStart(toStr(minutes % 60), 2, '0');
  const sign = seconds < 0 ? strSlice(gmt, -1) : '+';
  return strSlice(gmt, 0, -1) + sign + hour + (long || minutes % 60 ? `:${minute}` : '');
}

// zoneName names a zone in the style of timeZoneName. Names in words are English; other languages get the offset.
export function zoneName(locale, zone, entry, style) {
  const english = locale.language === 'en';
  if (style === 'shortOffset' || style === 'longOffset') return offsetName(locale, entry[1], style === 'longOffset');
  if (style === 'long' || style === 'longGeneric') {
    const name = english ? longName(zone, entry) : undefined;
    if (zone.name === 'UTC') return locale.text('utc');
    if (!english) {
      throw new RangeError(`Intl here has long names of time zones in English only: use timeZoneName 'short' in '${locale.name}'`);
    }
    if (name === undefined) return offsetName(locale, entry[1], true);
    return style === 'long' || zone.name === 'UTC' ? name : generic(name);
  }
  if (zone.name === 'UTC') return 'UTC';
  const list = split(locale.text('zones'), ' ');
  for (let i = 0; i < list.length; i++) {
    const both = split(list[i], '=');
    if (both[0] !== entry[2] || !local(zone.name, entry[2])) continue;
    const name = both[1] ?? both[0];
    return style === 'shortGeneric' && test(/^[A-Z]{1,2}[SD]T$/, name) ? name[0] + strSlice(name, -1) : name;
  }
  return offsetName(locale, entry[1], false);
}

const generic = (name) => {
  const m = regExpExec(/^(.*) (?:Standard|Daylight|Summer) Time$/, name);
  return m ? `${m[1]} Time` : name;
};

// local says whether an abbreviation is used in its best-known meaning: CST is no Central time in Asia.
function local(zone, abbreviation) {
  if (test(/^[CEMP][SD]T$|^A[KD]?[SD]T$|^HST$/, abbreviation)) {
    return !test(/^(?:Asia|Europe|Africa|Australia)\//, zone);
  }
  if (abbreviation === 'IST') return zone !== 'Asia/Jerusalem' && zone !== 'Europe/Dublin';
  return true;
}
