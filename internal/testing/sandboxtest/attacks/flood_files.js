// Calls for files without end.
// wants: error call_limit
for (;;) await fs.stat('/workspace').catch(() => {})
