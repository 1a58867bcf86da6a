// A value that is nested as deep as JSON may be read, and deeper than a record can be that has it.
// wants: error crash
outer.require('fs').writeSync(1, '{"t":"done","run":"' + outer.run + '","value":' + '['.repeat(9999) + ']'.repeat(9999) + '}\n')
for (;;) {}
