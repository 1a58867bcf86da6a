// The runner stops itself, so that it is neither idle nor busy.
// limit: wait
// wants: error timeout
// wants process: error runtime
outer.process.kill(outer.process.pid, 'SIGSTOP')
for (;;) {}
