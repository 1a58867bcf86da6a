// A loop.
// limit: compute
// wants: error timeout
for (;;) {}
