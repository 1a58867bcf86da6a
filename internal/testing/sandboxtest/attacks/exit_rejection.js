// A rejection that nobody handles, beside a result.
// wants: error runtime
Promise.reject(new Error('x'))
return 1
