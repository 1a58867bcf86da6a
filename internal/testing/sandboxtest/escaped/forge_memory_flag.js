// Frames with keys twice, in other spellings, and with other types.
// wants: error crash|runtime
outer.require('fs').writeSync(1, '{"t":"done","T":"log","run":"' + outer.run + '","RUN":"$RUN","value":1,"value":{"a":1},"id":"x"}\n')
for (;;) {}
