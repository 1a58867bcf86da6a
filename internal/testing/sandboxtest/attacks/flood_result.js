// A result that is too large.
// wants: error runtime
return 'x'.repeat(4 << 20)
