// A program that catches its end, in every place where it could.
// limit: compute
// wants: error timeout
for (;;) { try { for (;;) {} } catch { continue } finally { for (;;) {} } }
