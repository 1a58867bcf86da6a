// An end without an error, and without a result.
// wants: error crash
outer.process.exit(0)
