// More calls at the same time than the host allows.
// wants: value 40
// calls: 40 read {}
return (await Promise.all(Array.from({ length: 40 }, () => tools.up.read({})))).length
