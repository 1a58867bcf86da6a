// More calls than there may be.
for (;;) await tools.up.read({})
