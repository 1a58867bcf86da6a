// The first script of a container. Its argument has the lengths of the runner and of its code cache, which come over standard input, and the
// limits that the container was made with. What cannot be looked at counts as missing.
const fs = require('node:fs');
const expected = JSON.parse(process.argv[1]);
const missing = {};
const read = (file) => {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    return error.code;
  }
};
const codeOf = (attempt) => {
  try {
    attempt();
  } catch (error) {
    return error.code;
  }
};

const status = Object.fromEntries(read('/proc/self/status').split('\n').map((line) => line.split(':\t')));
const expect = (wall, name, value) => {
  if (status[name]?.trim() !== value) missing[wall] = `${name} of /proc/self/status is ${status[name]?.trim()}, not ${value}`;
};
expect('no privileges', 'Uid', '10001\t10001\t10001\t10001');
expect('no privileges', 'CapEff', '0000000000000000');
expect('no privileges', 'CapBnd', '0000000000000000');
expect('no privileges', 'NoNewPrivs', '1');

const version = read('/proc/version');
const gvisor = /^Linux version \S*gvisor/i.test(version);
if (!gvisor) missing['kernel of its own'] = `it has the machine's, and not gVisor's: ${version.slice(0, 80).trim()}`;

// Other lists of system calls than this tier's allow these.
const refused = (what, code) => {
  if (code === undefined) missing.seccomp = `the list of system calls is another one: it allows ${what}`;
};
refused('links', codeOf(() => fs.symlinkSync('nothing', '/tmp/probe')));
refused('sockets', codeOf(() => require('node:os').networkInterfaces()));
if (missing.seccomp === undefined) refused('processes', require('node:child_process').spawnSync(process.execPath, ['-v']).error?.code);
expect('seccomp', 'Seccomp', '2');
codeOf(() => fs.unlinkSync('/tmp/probe'));

const written = codeOf(() => fs.writeFileSync('/.probe', ''));
if (written !== 'EROFS' && written !== 'EACCES') missing['read-only root'] = written ?? 'a file can be written to it';

const network = (why) => { missing['no network'] ??= why; };
const table = (file) => { // without its headers
  const text = read(file);
  if (!/^Inter-|^Iface/.test(text)) network(`${file} cannot be read: ${text}`);
  return text.split('\n').filter((line) => line.trim() !== '' && !/^Inter-|^ face|^Iface/.test(line));
};
for (const line of table('/proc/self/net/route')) network(`it has a route: ${line.trim()}`);
table('/proc/self/net/dev');
const routes = read('/proc/self/net/ipv6_route'); // without IPv6 there is none
if (routes === 'ENOENT' ? read('/proc/self/net/if_inet6') !== 'ENOENT' : /^E[A-Z]+$/.test(routes)) network(`/proc/self/net/ipv6_route cannot be read: ${routes}`);
else for (const line of routes.split('\n')) if (/\S/.test(line) && line !== 'ENOENT' && !/ lo$/.test(line)) network(`it has a route: ${line.trim()}`);

// Limits are those of the container's own group, by version 2 of groups or by version 1.
const atMost = (what, value, most) => {
  if (!(Number(value) <= most)) missing.limits ??= `${what}: ${String(value).trim()}, not ${most}`;
};
const group = (second, first) => {
  const value = read(`/sys/fs/cgroup/${second}`);
  return value === 'ENOENT' ? read(`/sys/fs/cgroup/${first}`) : value;
};
atMost('memory', group('memory.max', 'memory/memory.limit_in_bytes'), expected.memory);
const [quota, period] = group('cpu.max', 'cpu/cpu.cfs_quota_us').trim().split(' ');
atMost('processors', Number(quota) > 0 ? quota / (period ?? read('/sys/fs/cgroup/cpu/cpu.cfs_period_us')) : quota === '-1' ? 'max' : quota, expected.cpus);
const [, files] = /^Max open files +\d+ +(\S+)/m.exec(read('/proc/self/limits')) ?? [];
atMost('open files', files, expected.files);
const tmp = fs.statfsSync('/tmp');
atMost('size of /tmp', tmp.blocks * tmp.bsize, expected.tmpSize);
if (!gvisor) { // its own groups and files have no such limits: those of the machine hold all of it
  atMost('processes', group('pids.max', 'pids/pids.max'), expected.pids);
  atMost('files in /tmp', tmp.files, expected.tmpFiles);
}
const mount = read('/proc/self/mounts').split('\n').findLast((line) => line.split(' ')[1] === '/tmp')?.split(' ')[3] ?? '';
if (!mount.split(',').includes('noexec')) missing.limits ??= `/tmp is mounted with ${mount}, without noexec`;
process.env.MISSING_WALLS = JSON.stringify(missing); // the runner tells the host

const receive = (length) => {
  const bytes = Buffer.alloc(length);
  for (let at = 0, n; at < length; at += n) {
    n = fs.readSync(0, bytes, { offset: at });
    if (n === 0) process.exit(1); // the host is gone
  }
  return bytes;
};
const runner = receive(expected.runner).toString();
const cache = process.argv[2] = '/tmp/code.cache'; // the runner's argument
if (expected.cache > 0) fs.writeFileSync(cache, receive(expected.cache));
require('node:vm').compileFunction(runner, ['require', 'process'], { filename: '/runner.cjs' })(require, process);
fs.rmSync(cache, { force: true }); // it has been read
