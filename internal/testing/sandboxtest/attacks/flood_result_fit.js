// A result that fits a value, and not what is kept of a run.
// wants: error output_limit
return 'x'.repeat(1e6)
