// Security keys and passkeys approve requests, and are registered. A browser asks for them in scripts only.

const bytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

// ask sends fields to the server and returns its answer.
async function ask(path, fields) {
  const answer = await fetch(path, { method: 'POST', body: new URLSearchParams(fields), cache: 'no-store' });
  if (answer.redirected) throw new Error('The session has ended: load the page again.');
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.detail);
  return body;
}

// post sends fields as a form does, so that the browser shows the page that answers.
function post(path, fields) {
  const form = document.createElement('form');
  form.method = 'post';
  form.action = path;
  form.hidden = true;
  for (const [name, value] of fields) {
    const input = document.createElement('input');
    input.name = name;
    input.value = value;
    form.append(input);
  }
  document.body.append(form);
  form.submit();
}

const named = (credentials) => credentials.map((c) => ({ ...c, id: bytes(c.id) }));

// approve has a security key approve what is chosen in a form, as the page shows it. data-confirm is the address that asks.
async function approve(form) {
  const chosen = [...form.querySelectorAll('input[name=id]')].filter((i) => i.type === 'hidden' || i.checked);
  const fields = [...new FormData(form)].filter(([name]) => name !== 'reason');
  const seen = chosen.map((i) => ['seen', `${i.value} ${i.dataset.seen}`]);
  const { batch, publicKey } = await ask(form.dataset.confirm, [...fields, ...seen, ['origin', location.origin]]);
  const made = await navigator.credentials.get({
    publicKey: { ...publicKey, challenge: bytes(publicKey.challenge), allowCredentials: named(publicKey.allowCredentials) },
  });
  const r = made.response;
  const credential = JSON.stringify({ id: made.id, response: {
    clientDataJSON: text(r.clientDataJSON), authenticatorData: text(r.authenticatorData), signature: text(r.signature),
  } });
  post(form.getAttribute('action'), [...fields, ['decision', 'approve'], ['batch', batch], ['credential', credential]]);
}

// register makes a credential for the link of the page.
async function register(form) {
  const fields = [...new FormData(form)];
  const { origin, publicKey } = await ask('/security-keys/questions', fields);
  if (origin !== location.origin) throw new Error(`The link is for ${origin}: open the page there.`);
  const made = await navigator.credentials.create({
    publicKey: {
      ...publicKey, challenge: bytes(publicKey.challenge), user: { ...publicKey.user, id: bytes(publicKey.user.id) },
      excludeCredentials: named(publicKey.excludeCredentials),
    },
  });
  const credential = JSON.stringify({ response: {
    clientDataJSON: text(made.response.clientDataJSON), attestationObject: text(made.response.attestationObject),
  } });
  post('/security-keys', [...fields, ['credential', credential]]);
}

// why says in words why there is no answer of a key.
function why(error) {
  if (error.name === 'NotAllowedError') return 'The security key did not answer in time, or it was cancelled.';
  if (error.name === 'InvalidStateError') return 'This key is registered already.';
  if (error.name === 'SecurityError') return 'The browser uses no security keys at this address.';
  return error.message;
}

let asking = false;
document.addEventListener('submit', async (e) => {
  const form = e.target, approves = form.matches('[data-confirm]') && e.submitter?.value === 'approve';
  if (!approves && !form.matches('[data-register]')) return;
  e.preventDefault();
  if (asking) return;
  const say = (words) => {
    const p = document.querySelector('[data-answer]');
    if (!p) return;
    p.textContent = words;
    p.hidden = !words;
  };
  if (!window.PublicKeyCredential) return say('This browser uses no security keys here: they need https:// or http://localhost.');
  asking = true;
  say('');
  try {
    await (approves ? approve(form) : register(form));
  } catch (error) {
    say(why(error));
  } finally {
    asking = false;
  }
});
