// Waiting for longer than there is time.
// limit: wait
// wants: error timeout
for (;;) await utils.sleep(1e6).catch(() => {})
