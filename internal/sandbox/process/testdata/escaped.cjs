// What a program would try that has escaped from its realm and has all of Node.js: it says it is ready, and then tells, in one done frame,
// what each attempt gave. Those that failed are absent.
'use strict';
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const cp = require('node:child_process');

const done = {};
const write = (frame) => fs.writeSync(1, `${JSON.stringify(frame)}\n`);
const attempt = (name, attack) => {
  try {
    const got = attack();
    if (got !== undefined) done[name] = String(got).slice(0, 200);
  } catch { /* it failed, as it should */ }
};

write({ t: 'ready', engine: process.version });

for (const path of ['/etc/passwd', '/etc/hostname', '/proc/self/environ', '/proc/self/maps', '/proc/1/cmdline', '/proc/net/tcp', '/sys/kernel/notes',
  '/dev/mem', '/dev/kmsg', '/root/.bashrc', '/var/run/docker.sock', '../../../../etc/passwd']) {
  attempt(`read ${path}`, () => fs.readFileSync(path));
}
attempt('list /', () => fs.readdirSync('/'));
for (const path of ['/x', '/tmp/x', '/runner.cjs', '/node', '/dev/shm/x', '/proc/x']) {
  attempt(`write ${path}`, () => { fs.writeFileSync(path, 'x'); return 'written'; });
}
attempt('append to the runner', () => { fs.appendFileSync('/runner.cjs', 'x'); return 'written'; });
attempt('make a directory', () => { fs.mkdirSync('/d'); return 'made'; });
attempt('make a link', () => { fs.symlinkSync('/etc', '/l'); return 'made'; });
attempt('make a hard link', () => { fs.linkSync('/runner.cjs', '/l2'); return 'made'; });
attempt('remove the runner', () => { fs.unlinkSync('/runner.cjs'); return 'removed'; });
attempt('change a mode', () => { fs.chmodSync('/runner.cjs', 0o777); return 'changed'; });
attempt('change an owner', () => { fs.chownSync('/runner.cjs', 0, 0); return 'changed'; });
for (const [program, ...args] of [['sh', '-c', 'id'], ['/bin/sh', '-c', 'id'], ['/node', '-e', '1'], [process.execPath, '--version']]) {
  attempt(`execute ${program} ${args}`, () => {
    const child = cp.spawnSync(program, args);
    if (child.error) throw child.error;
    return child.pid;
  });
}
attempt('spawn without waiting', () => {
  const child = cp.spawn('/node', ['-e', '1']);
  child.on('error', () => {});
  return child.pid;
});
attempt('fork', () => cp.fork('/runner.cjs').pid);
for (const pid of [-1, 1 << 20, process.ppid]) {
  attempt(`signal ${pid}`, () => process.kill(pid, 0));
}
attempt('become root', () => { process.setuid(0); return process.getuid(); });
attempt('be root', () => (process.getuid() === 0 || process.geteuid() === 0 ? 'root' : undefined));
attempt('change the group', () => { process.setgid(0); return process.getgid(); });
attempt('load a native addon', () => { process.dlopen({ exports: {} }, '/runner.cjs'); return 'loaded'; });
attempt('write to a descriptor', () => { for (let fd = 3; fd < 64; fd++) try { fs.writeSync(fd, 'x'); if (!fs.fstatSync(fd).isFile()) continue; return fd; } catch {} });
attempt('see the environment', () => Object.keys(process.env).filter((name) => !['TZ', 'LANG', 'OPENSSL_CONF', 'LD_LIBRARY_PATH', 'MISSING_WALLS'].includes(name)).join() || undefined);
attempt('see the network', () => Object.keys(os.networkInterfaces()).join() || undefined);
attempt('see the host name', () => (os.hostname() === '' ? undefined : process.env.HOST_NAME === os.hostname() ? os.hostname() : undefined));
attempt('open the inspector', () => { require('node:inspector').open(0); return require('node:inspector').url(); });
attempt('raise a priority', () => { os.setPriority(0, -20); return os.getPriority(0); });

// What answers later.
const later = (name, start) => new Promise((resolve) => {
  const end = (got) => { if (got !== undefined) done[name] = String(got); resolve(); };
  try {
    start(end);
  } catch {
    end();
  }
});
const connect = (where) => (end) => {
  const socket = net.connect(where);
  socket.on('connect', () => end('connected')).on('error', () => end());
};

module.exports = Promise.all([
  later('connect to loopback', connect({ port: 22, host: '127.0.0.1' })),
  later('connect to the metadata of a cloud', connect({ port: 80, host: '169.254.169.254' })),
  later('connect to a socket', connect({ path: '/run/docker.sock' })),
  later('connect to an abstract socket', connect({ path: '\0/tmp/.X11-unix/X0' })),
  later('listen', (end) => net.createServer().on('error', () => end()).listen(0, '0.0.0.0', () => end('listening'))),
  later('look a name up', (end) => require('node:dns').lookup('localhost', (error) => end(error ? undefined : 'found'))),
  later('send a datagram', (end) => require('node:dgram').createSocket('udp4').on('error', () => end()).bind(0, () => end('bound'))),
]).then(() => {
  write({ t: 'done', value: done });
  process.stdin.resume();
});
