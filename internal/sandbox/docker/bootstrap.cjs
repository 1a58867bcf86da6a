// The first script of a container. Its argument is the length of the runner, which comes over standard input.
const fs = require('node:fs');
const missing = {};
const status = Object.fromEntries(fs.readFileSync('/proc/self/status', 'utf8').split('\n').map((line) => line.split(':\t')));
const expect = (wall, name, value) => {
  if (status[name]?.trim() !== value) missing[wall] = `${name} of /proc/self/status is ${status[name]?.trim()}, not ${value}`;
};
expect('no privileges', 'Uid', '10001\t10001\t10001\t10001');
expect('no privileges', 'CapEff', '0000000000000000');
expect('no privileges', 'CapBnd', '0000000000000000');
expect('no privileges', 'NoNewPrivs', '1');
expect('seccomp', 'Seccomp', '2');
try {
  fs.writeFileSync('/.probe', '');
  missing['read-only root'] = 'a file can be written to it';
} catch (error) {
  if (error.code !== 'EROFS' && error.code !== 'EACCES') missing['read-only root'] = error.message;
}
const lines = (file) => { // of a table of the kernel; without IPv6 some are not there
  try {
    return fs.readFileSync(file, 'utf8').split('\n').filter((line) => line !== '');
  } catch {
    return [];
  }
};
const routes = [...lines('/proc/self/net/route').slice(1), ...lines('/proc/self/net/ipv6_route').filter((line) => !/ lo$/.test(line))];
if (routes.length > 0) missing['no network'] = `it has a route: ${routes[0].trim()}`;
process.env.MISSING_WALLS = JSON.stringify(missing); // the runner tells the host

const runner = Buffer.alloc(Number(process.argv[1]));
for (let at = 0, n; at < runner.length; at += n) {
  n = fs.readSync(0, runner, { offset: at });
  if (n === 0) process.exit(1); // the host is gone
}
require('node:vm').compileFunction(runner.toString(), ['require', 'process'], { filename: '/runner.cjs' })(require, process);
