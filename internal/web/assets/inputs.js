// Files of a form: several are chosen or dropped, shown with their sizes, and removed one by one. Without this script the field works as browsers have it.

const words = (n) => n < 1024 ? `${n} B` : n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;

// inputs makes the fields of the page take files that are dropped.
export function inputs() {
  for (const zone of document.querySelectorAll('[data-inputs]:not([data-ready])')) mount(zone);
}

function mount(zone) {
  const field = zone.querySelector('input[type=file]'), list = zone.querySelector('[data-chosen]'), sum = zone.querySelector('[data-sum]'), wrong = zone.querySelector('[data-wrong]');
  const most = { bytes: Number(zone.dataset.bytes), files: Number(zone.dataset.files) };
  let files = [], folders = false;
  zone.dataset.ready = '';
  zone.querySelector('[data-drop]').hidden = false;

  // add takes files. One of the same name is replaced.
  function add(more) {
    const names = new Set(more.map((f) => f.name));
    files = [...files.filter((f) => !names.has(f.name)), ...more];
    show();
  }

  function show() {
    const all = new DataTransfer();
    for (const f of files) all.items.add(f);
    field.files = all.files;
    list.hidden = !files.length;
    list.replaceChildren(...files.map((f, i) => {
      const item = document.createElement('li'), remove = document.createElement('button');
      remove.type = 'button';
      remove.textContent = 'Remove';
      remove.ariaLabel = 'Remove ' + f.name;
      remove.addEventListener('click', () => {
        files.splice(i, 1);
        show();
        (list.querySelectorAll('button')[Math.min(i, files.length - 1)] ?? field).focus();
      });
      item.append(`${f.name}, ${words(f.size)} `, remove);
      return item;
    }));
    const bytes = files.reduce((n, f) => n + f.size, 0);
    sum.textContent = files.length ? `${files.length === 1 ? '1 file' : files.length + ' files'}, ${words(bytes)}` : '';
    const why = most.bytes && bytes > most.bytes ? `The files have ${words(bytes)}, and those of a session may have ${words(most.bytes)}: remove some.`
      : most.files && files.length > most.files ? `A session may have ${most.files} files: remove some.` : '';
    field.setCustomValidity(why);
    wrong.textContent = why || (folders ? 'Folders are left out: drop their files.' : '');
    wrong.hidden = !wrong.textContent;
    folders = false;
  }

  field.addEventListener('change', () => add([...field.files]));
  zone.addEventListener('dragover', () => zone.classList.add('over'));
  zone.addEventListener('dragleave', () => zone.classList.remove('over'));
  zone.addEventListener('drop', (e) => {
    zone.classList.remove('over');
    const items = [...e.dataTransfer.items].filter((i) => i.kind === 'file');
    const plain = items.filter((i) => i.webkitGetAsEntry?.()?.isDirectory !== true);
    folders = plain.length < items.length;
    add(plain.map((i) => i.getAsFile()).filter(Boolean));
  });
}

// A file that is dropped beside a field would replace the page, with what was typed.
for (const kind of ['dragover', 'drop']) {
  document.addEventListener(kind, (e) => {
    if (!e.dataTransfer?.types.includes('Files')) return;
    e.preventDefault();
    if (!e.target.closest?.('[data-inputs]')) e.dataTransfer.dropEffect = 'none';
  });
}
