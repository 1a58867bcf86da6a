// Arguments of which the gate might read one spelling and the server another.
// wants: value {"n":1,"N":2,"__proto__":{"n":9}}
// call: read {"n":1,"N":2,"__proto__":{"n":9}}
return await tools.up.read(JSON.parse('{"n":0,"N":2,"n":1,"__proto__":{"n":9}}'))
