// An end that would leave a core behind.
// wants: error crash
outer.process.abort()
