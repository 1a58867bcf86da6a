// The Web's and ECMA-402's globals that model-written code counts on and the engine lacks. Nothing here reads the machine:
// time, zones, timers and randomness come from ctx, and nothing of it is asked while this loads.
import { Blob, fileClass } from './blob.js';
import { Buffer } from './buffer.js';
import { structuredClone } from './clone.js';
import { cryptoObject } from './crypto.js';
import { decoders, DOMException } from './domexception.js';
import { TextDecoder, TextEncoder } from './encoding.js';
import { eventClasses } from './events.js';
import { fetchClasses } from './fetch.js';
import { formDataClass, Headers } from './forms.js';
import { intlObject } from './intl/intl.js';
import { URLSearchParams } from './searchparams.js';
import { URL } from './url.js';

// install returns the globals to define, by name, and gives Number, BigInt, String, Date and the arrays their locale
// methods. ctx is:
//
//   random(n)   n bytes of the run's generator, a Uint8Array of its own
//   now()       the run's clock in microseconds since the Unix epoch
//   zone(name)  {zone, transitions} of a time zone; throws RangeError for a name that is none
//   backgroundTimer(callback, ms)  a timer that does not hold the program's end up
//   callSite()  where the program is
//   http(tool, input, site)  a promise of the answer of a tool of the built-in server http, called at site
//   readFile(path)  a promise of the bytes of a file
//   base64(bytes)  bytes as text
//   detach(buffer)  makes an ArrayBuffer one of no bytes
export function install(ctx) {
  const File = fileClass(ctx);
  const FormData = formDataClass(File);
  return {
    ...eventClasses(ctx),
    URL, URLSearchParams, TextEncoder, TextDecoder, structuredClone: structuredClone(ctx.detach), Blob, Buffer, DOMException, File, Headers,
    FormData,
    ...decoders(globalThis),
    ...fetchClasses(ctx, FormData),
    crypto: cryptoObject(ctx),
    Intl: intlObject(ctx),
  };
}
