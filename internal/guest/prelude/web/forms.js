// Headers (Fetch Standard, section 5.1) and FormData (XMLHttpRequest Standard).
import { indexOf, join, push, sort, symbolInspect, toLowerCase, toStr, toWellFormed } from '../intrinsics.js';
import { replace, test } from '../text.js';
import { isBlob } from './blob.js';
import { pairMethods, pairsOf, valuesOf } from './pairs.js';

const TOKEN = /^[!#$%&'*+\-.^_`|~\dA-Za-z]+$/;

function headerName(name) {
  name = toStr(name);
  if (!test(TOKEN, name)) throw new TypeError(`Headers: '${name}' is not a valid name`);
  return toLowerCase(name);
}

function headerValue(value) {
  value = replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, toStr(value), () => '');
  if (test(/[\0\n\r\u0100-\uffff]/, value)) throw new TypeError('Headers: a value has characters that no header can have');
  return value;
}

// sorted are the names of a list in order, each with its values as one, but of Set-Cookie each by itself.
function sorted(list) {
  const names = [];
  for (let i = 0; i < list.length; i++) if (indexOf(names, list[i][0]) < 0) push(names, list[i][0]);
  sort(names);
  const pairs = [];
  for (let i = 0; i < names.length; i++) {
    const values = valuesOf(list, names[i]);
    if (names[i] !== 'set-cookie') push(pairs, [names[i], join(values, ', ')]);
    else for (let k = 0; k < values.length; k++) push(pairs, [names[i], values[k]]);
  }
  return pairs;
}

export class Headers {
  #list = [];
  #sorted; // undefined since the last change

  static {
    pairMethods(Headers, 'Headers', {
      read: (headers) => headers.#list,
      write: (headers, list) => {
        headers.#list = list;
        headers.#sorted = undefined;
      },
      shown: (headers) => (headers.#sorted ??= sorted(headers.#list)),
      nameOf: headerName,
      valueOf: headerValue,
    });
    delete Headers.prototype.getAll;
  }

  constructor(init = undefined) {
    if (init !== undefined) pairsOf('Headers', init, (name, value) => this.append(name, value));
  }

  get(name) {
    const values = valuesOf(this.#list, headerName(name));
    return values.length === 0 ? null : join(values, ', ');
  }

  getSetCookie() { return valuesOf(this.#list, 'set-cookie'); }

  [symbolInspect](depth, options, inspect) {
    const shown = {};
    for (let i = 0; i < this.#list.length; i++) shown[this.#list[i][0]] = join(valuesOf(this.#list, this.#list[i][0]), ', ');
    return depth < 0 ? '[Headers]' : `Headers ${inspect(shown, options)}`;
  }
}

// formDataClass makes FormData; File is the class that values which are Blobs become.
export function formDataClass(File) {
  class FormData {
    #list = [];

    static {
      pairMethods(FormData, 'FormData', {
        read: (form) => form.#list,
        write: (form, list) => { form.#list = list; },
        nameOf: (name) => toWellFormed(toStr(name)),
        valueOf: (value, name) => {
          if (!isBlob(value)) return toWellFormed(toStr(value));
          if (value instanceof File && name === undefined) return value;
          return new File([value], name === undefined ? 'blob' : toStr(name), { type: value.type, lastModified: value.lastModified });
        },
      });
    }

    constructor(form = undefined) {
      if (form !== undefined) throw new TypeError('FormData takes no form: there is no document');
    }
  }
  return FormData;
}
