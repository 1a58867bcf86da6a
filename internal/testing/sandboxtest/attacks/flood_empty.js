// Lines without a text.
// wants: error output_limit
// log: *
for (;;) console.log()
