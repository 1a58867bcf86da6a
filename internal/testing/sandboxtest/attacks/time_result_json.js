// The result is never written to its end.
// limit: compute
// wants: error timeout
return { toJSON() { for (;;) {} } }
