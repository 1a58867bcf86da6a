// Modules of Node.js that start processes and threads, or debug.
// wants: value []
const got = []
for (const name of ['child_process', 'worker_threads', 'cluster', 'vm', 'v8', 'inspector', 'net', 'http', 'dgram', 'tls', 'dns', 'module', 'repl', 'async_hooks', 'process', 'wasi', 'perf_hooks', 'diagnostics_channel', 'trace_events']) {
  for (const full of [name, 'node:' + name]) {
    try {
      const m = require(full)
      const power = m.spawn ?? m.Worker ?? m.fork ?? m.runInThisContext ?? m.setFlagsFromString ?? m.open ?? m.connect ?? m.request ?? m.createSocket ?? m.lookup ?? m.createRequire ?? m.start ?? m.createHook ?? m.binding ?? m.WASI ?? m.PerformanceObserver
      if (power !== undefined) got.push(full)
    } catch {}
  }
}
return got
