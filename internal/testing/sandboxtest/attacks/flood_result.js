// A result that is too large.
// wants: error output_limit
return 'x'.repeat(4 << 20)
