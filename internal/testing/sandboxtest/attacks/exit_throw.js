// Ends that are no errors.
// wants: error runtime
throw null
