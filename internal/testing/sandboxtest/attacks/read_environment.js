// Variables of the host's environment.
// wants: value [[],"undefined","undefined"]
return [Object.keys(env), typeof env.HARNESS_CANARY, typeof globalThis.process]
