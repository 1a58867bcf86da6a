// A program that takes no signals.
// limit: compute
// wants: error timeout
for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGCONT']) { try { outer.process.on(name, () => {}) } catch {} }
for (;;) {}
