// Timers, which are the host's.
// wants: error call_limit
for (;;) setTimeout(() => {}, 1e6)
