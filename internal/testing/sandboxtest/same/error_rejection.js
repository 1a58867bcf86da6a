// A rejection that nobody handles.
Promise.reject(new RangeError('late'))
await utils.sleep(1)
return 1
