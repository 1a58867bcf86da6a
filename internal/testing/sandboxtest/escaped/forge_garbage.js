// Something that is no frame.
// wants: error crash
outer.require('fs').writeSync(1, 'Segmentation fault\n')
for (;;) {}
