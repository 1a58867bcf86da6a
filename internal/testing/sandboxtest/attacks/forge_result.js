// A result whose text is made by the program.
// wants: value {"a":{"t":"done"}}
return { a: { toJSON: () => ({ t: 'done' }) } }
