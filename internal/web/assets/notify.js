// Notifications of the desktop for requests that wait for a person, where a person has switched them on. One tab of a browser asks the server,
// hidden or not; the others wait until it is closed.

const every = 15000, switched = 'notify', told = 'told';

const on = () => localStorage.getItem(switched) === 'on' && Notification.permission === 'granted';

// ask shows a notification if a request waits that none was shown for.
async function ask() {
  const answer = await fetch('/approvals/waiting', { cache: 'no-store' });
  if (answer.redirected || !answer.ok) return;
  const { waiting } = await answer.json();
  const before = JSON.parse(localStorage.getItem(told) ?? '[]');
  const fresh = waiting.filter((w) => !before.includes(w.id));
  localStorage.setItem(told, JSON.stringify(waiting.map((w) => w.id)));
  if (!fresh.length) return;
  const one = fresh.length === 1;
  const shown = new Notification(one ? 'A request waits for you' : `${fresh.length} requests wait for you`, { body: [...new Set(fresh.flatMap((w) => w.tools))].join(', '), tag: 'approvals' });
  shown.onclick = () => {
    window.focus();
    location.href = one ? '/approvals/' + encodeURIComponent(fresh[0].id) : '/approvals';
    shown.close();
  };
}

// watch asks until notifications are switched off, in one tab at a time.
function watch() {
  navigator.locks?.request('notify', async () => {
    while (on()) {
      await ask().catch(() => {}); // the server may be restarting
      await new Promise((resolve) => setTimeout(resolve, every));
    }
  });
}

// offer makes the button of a page switch notifications on and off. It follows what another tab does.
export function offer() {
  if (!window.Notification || !navigator.locks) return;
  const button = document.querySelector('button[data-notify]');
  if (button && !button.dataset.offered) {
    const show = () => {
      button.textContent = on() ? 'Stop notifications' : 'Notify me on this desktop';
      button.setAttribute('aria-pressed', on());
    };
    button.dataset.offered = '';
    button.hidden = false;
    button.addEventListener('click', async () => {
      if (on()) localStorage.setItem(switched, 'off');
      else if (await Notification.requestPermission() === 'granted') {
        localStorage.setItem(switched, 'on');
        watch();
      } else button.after(Object.assign(document.createElement('p'), { role: 'status', className: 'meta', textContent: 'The browser does not allow notifications of this page: allow them in its settings.' }));
      show();
    });
    addEventListener('storage', show);
    show();
  }
}

offer();
if (window.Notification && on()) watch();
