// Calls that are made while the result is being written, and after it.
// wants: value {"a":1}
// call: send {"during":1}
// call: send {"after":1}
// log: *
let first = true
return {
  get a() {
    if (first) tools.up.send({ during: 1 }).then(() => tools.up.send({ after: 1 }))
    first = false
    return 1
  },
}
